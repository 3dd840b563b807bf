// Forks while another thread is in the loader's allocations, where the recorder scans for new libraries. Each child
// then loads a library with an embedded allocator, and allocates from it. With "first": a thread whose first act it
// is forks once, and the child allocates from the library that the program has loaded.
//
// usage: embedded_forks CHILDREN|first PLUGIN
// Prints how many children failed; with "first", how many pages of memory the child used. Exit status 0: none failed.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

using Use = void(unsigned);

Use* load(const char* path) {
  void* const plugin = dlopen(path, RTLD_NOW);
  return plugin == nullptr ? nullptr : reinterpret_cast<Use*>(dlsym(plugin, "embedded_plugin_work"));
}

int child(const char* path) {
  Use* const use = load(path);
  if (use == nullptr) return 3;
  use(100);
  return 0;
}

/// The pages of the address space, read without an allocation.
long mapped_pages() {
  char text[64] = {};
  const int file = open("/proc/self/statm", O_RDONLY);
  if (file < 0 || read(file, text, sizeof text - 1) <= 0) _exit(5);
  close(file);
  return std::strtol(text, nullptr, 10);
}

struct FirstFork {
  Use* use;
  int pipe[2];
};

void* fork_first(void* argument) {
  const auto& [use, pipe] = *static_cast<FirstFork*>(argument);
  const pid_t process = fork();
  if (process == 0) {
    const long before = mapped_pages();
    for (int i = 0; i < 20; ++i) use(100);
    const long pages = mapped_pages() - before;
    _exit(write(pipe[1], &pages, sizeof pages) == sizeof pages ? 0 : 6);
  }
  waitpid(process, nullptr, 0);
  return nullptr;
}

int fork_in_new_thread(const char* path) {
  FirstFork fork{load(path), {}};
  if (fork.use == nullptr || pipe(fork.pipe) != 0) return 3;
  pthread_t thread;
  if (pthread_create(&thread, nullptr, fork_first, &fork) != 0) return 2;
  pthread_join(thread, nullptr);
  close(fork.pipe[1]);
  long pages = 0;
  if (read(fork.pipe[0], &pages, sizeof pages) != sizeof pages) return 4;
  std::printf("%ld\n", pages);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  if (std::strcmp(argv[1], "first") == 0) return fork_in_new_thread(argv[2]);
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
