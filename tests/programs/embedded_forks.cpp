// Forks while another thread is in the loader's allocations, where the recorder scans for new libraries. Each child
// then loads a library with an embedded allocator, and allocates from it.
//
// usage: embedded_forks CHILDREN PLUGIN
// Exit status 0: all children exited with status 0.
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

/// The loader allocates a new thread's thread-local storage, unless libc has cached a stack that contains it. libc
/// caches at most 40 MiB of stacks.
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
  const auto use = reinterpret_cast<Use*>(dlsym(plugin, "embedded_plugin_work"));
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
