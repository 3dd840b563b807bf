// Forks while other threads are in the loader's allocations, where the recorder looks for allocators of new
// libraries: each child then loads a library that brings its own, alone, and allocates in it.
//
// usage: own_forks CHILDREN PLUGIN
// Exit status 0: all children came to their end.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<bool> g_stop{false};

void* nothing(void*) { return nullptr; }

/// A thread's thread-local storage is allocated by the loader, unless libc has kept a stack on which it lies already:
/// it keeps no more than 40 MiB of them.
constexpr std::size_t kStackBytes = 64 << 20;

void* begin_threads(void*) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  while (!g_stop.load()) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, nothing, nullptr) == 0) pthread_join(thread, nullptr);
  }
  pthread_attr_destroy(&attributes);
  return nullptr;
}

int child(const char* path) {
  void* const plugin = dlopen(path, RTLD_NOW);
  if (plugin == nullptr) return 3;
  using Use = void(unsigned);
  const auto use = reinterpret_cast<Use*>(dlsym(plugin, "own_plugin_work"));
  if (use == nullptr) return 4;
  use(100);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  pthread_t busy;
  if (pthread_create(&busy, nullptr, begin_threads, nullptr) != 0) return 2;
  int failed = 0;
  for (int i = std::atoi(argv[1]); i > 0; --i) {
    const pid_t process = fork();
    if (process == 0) std::exit(child(argv[2]));
    int status = -1;
    if (process < 0 || waitpid(process, &status, 0) != process || status != 0) ++failed;
  }
  g_stop.store(true);
  pthread_join(busy, nullptr);
  std::printf("%d\n", failed);
  return failed != 0;
}
