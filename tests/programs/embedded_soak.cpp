// Threads allocate from the program's allocator while libraries with embedded allocators are loaded, used and
// unloaded.
//
// usage: embedded_soak ROUNDS THREADS PLUGIN...
//
// One thread uses each plugin, the others use the program's allocator. Prints "plugin N" and "program N": the number
// of blocks that each allocated.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

std::atomic<unsigned long> from_plugins, from_program;
std::atomic<bool> done;

extern "C" [[gnu::noinline]] void* site_program(std::size_t bytes) {
  void* block = malloc(bytes);
  asm volatile("" ::: "memory");
  return block;
}

void load(const char* path, unsigned rounds) {
  for (unsigned round = 0; round < rounds; ++round) {
    void* plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(1);
    }
    auto* const work = reinterpret_cast<void (*)(unsigned)>(dlsym(plugin, "embedded_plugin_work"));
    work(20);
    from_plugins += 21;  // its constructor allocates one more
    dlclose(plugin);
  }
}

void allocate() {
  void* held[64] = {};
  for (unsigned long i = 0; !done || i < 1000; ++i) {
    void*& slot = held[i % 64];
    free(slot);
    slot = site_program(1 + i % 3000);
    std::memset(slot, 1, 1);
    ++from_program;
  }
  for (void* block : held) free(block);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto rounds = static_cast<unsigned>(std::atoi(argv[1]));
  const int threads = std::atoi(argv[2]);
  std::vector<std::thread> loaders, others;
  for (int i = argc - 3; i < threads; ++i) others.emplace_back(allocate);
  for (int i = 3; i < argc; ++i) loaders.emplace_back(load, argv[i], rounds);
  for (auto& thread : loaders) thread.join();
  done = true;
  for (auto& thread : others) thread.join();
  std::printf("plugin %lu\nprogram %lu\n", from_plugins.load(), from_program.load());
}
