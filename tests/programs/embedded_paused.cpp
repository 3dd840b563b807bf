// Loads a plugin with an embedded allocator while recording is paused. Another thread uses it during the pause, and
// after it.
//
// usage: embedded_paused PLUGIN ANOTHER
//
// Prints "same" if the plugin's code did not change when ANOTHER was loaded, else "changed".
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "preload/heapprof.h"
#include "tests/programs/loaded_code.h"

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
  work = reinterpret_cast<void (*)(unsigned)>(dlsym(plugin, "embedded_plugin_work"));
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
