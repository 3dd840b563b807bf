// A plugin with an allocator of its own is loaded during a pause, and used during it by a thread that goes on:
// own_paused PLUGIN ANOTHER
//
// Prints whether the plugin's code was the same before and after the other plugin was loaded.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "preload/heapprof.h"

namespace {

/// The executable segment of a loaded library.
struct Code {
  ElfW(Addr) load_bias;
  std::vector<char> bytes;
};

std::vector<char> code_of(void* plugin) {
  Code code{static_cast<const link_map*>(plugin)->l_addr, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Code*>(data);
        if (info->dlpi_addr != wanted.load_bias) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          const auto* const begin = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0)
            wanted.bytes.assign(begin, begin + segment.p_filesz);
        }
        return 1;
      },
      &code);
  return code.bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::atomic<void (*)(unsigned)> work = nullptr;
  std::atomic<int> done = 0;
  std::thread worker([&] {  // there are two threads from here on
    while (work == nullptr) std::this_thread::yield();
    work.load()(10);  // in the pause
    done = 1;
    while (done != 2) std::this_thread::yield();
    work.load()(20);  // after it
    done = 3;
    while (done != 4) std::this_thread::yield();
  });
  heapprof_pause();
  void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return 3;
  work = reinterpret_cast<void (*)(unsigned)>(dlsym(plugin, "own_plugin_work"));
  while (done != 1) std::this_thread::yield();
  heapprof_resume();
  done = 2;
  while (done != 3) std::this_thread::yield();
  const std::vector<char> before = code_of(plugin);
  if (dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) == nullptr) return 3;
  const bool same = before == code_of(plugin);
  done = 4;
  worker.join();
  std::printf("%s\n", same && !before.empty() ? "same" : "changed");
  return 0;
}
