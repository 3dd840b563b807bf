// Loads bypass_plugin so that its calls of malloc bypass the preloaded recorder's hooks, while other threads
// allocate.
//
// usage: bypass deepbind|lazy|dlmopen|linked PLUGIN ROUNDS THREADS
//
//   deepbind  RTLD_DEEPBIND
//   lazy      the same, bound at the first call
//   dlmopen   another namespace, which each round creates and closes
//   linked    the program is linked with the plugin
//
// Each round calls bypass_work once. The program frees the block that it returns, and the plugin one of the
// program's; with dlmopen, each frees its own. Prints "program N": the number of blocks that the program allocated.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

std::atomic<unsigned long> from_program;
std::atomic<bool> done;

extern "C" [[gnu::noinline]] void* site_program(std::size_t bytes) {
  void* block = std::malloc(bytes);
  asm volatile("" ::: "memory");
  ++from_program;
  return block;
}

namespace {

void allocate() {
  do {
    for (int i = 0; i < 16; ++i) std::free(site_program(100));
    usleep(100);
  } while (!done);
}

template <typename Function>
Function* find(void* library, const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) std::exit(3);
  return function;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const char* how = argv[1];
  const bool other_namespace = std::strcmp(how, "dlmopen") == 0;
  const bool linked = std::strcmp(how, "linked") == 0;
  const bool lazy = std::strcmp(how, "lazy") == 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < std::atoi(argv[4]); ++i) threads.emplace_back(allocate);
  for (int round = 0; round < std::atoi(argv[3]); ++round) {
    void* library = other_namespace ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW)
                    : linked        ? RTLD_DEFAULT
                                    : dlopen(argv[2], (lazy ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL | RTLD_DEEPBIND);
    if (library == nullptr && !linked) {
      std::fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
    auto* const work = find<void*()>(library, "bypass_work");
    auto* const release = find<void(void*)>(library, "bypass_release");
    void* block = work();
    if (other_namespace) {
      release(block);
      std::free(site_program(100));
    } else {
      std::free(block);
      release(site_program(100));
    }
    if (!linked) dlclose(library);
  }
  done = true;
  for (auto& thread : threads) thread.join();
  std::printf("program %lu\n", from_program.load());
}
