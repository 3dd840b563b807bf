// Hosts that are hard to record.
//
// usage: stress MODE [N]
//
//   stress cancel [N]     1,000 threads, or N, each cancelled while it allocates
//   stress storm [N]      20,000 threads, or N, that live for one allocation
//   stress many           1,000 threads at once
//   stress fork           300 forks while three threads allocate
//   stress descriptors    closes every descriptor, and opens its own file under every number
//
// Prints how many blocks of kCountedSize bytes this process allocated, including those of cancelled threads. Exit
// status 1: the host was affected.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

namespace {

constexpr size_t kCountedSize = 777;
std::atomic<long> allocated{0};
std::atomic<bool> stop{false};

/// Cancellation waits for pthread_testcancel: neither malloc nor the count is a cancellation point.
[[gnu::noinline]] void pair() {
  void* volatile block = malloc(kCountedSize);
  ++allocated;
  free(block);
}

void* until_cancelled(void*) {
  for (;;) {
    for (int i = 0; i < 20; ++i) pair();
    pthread_testcancel();
  }
}

void* until_stopped(void*) {
  while (!stop) pair();
  return nullptr;
}

void* one_pair(void*) {
  pair();
  return nullptr;
}

int cancel(int times) {
  for (int i = 0; i < times; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, until_cancelled, nullptr) != 0) return 1;
    usleep(static_cast<unsigned>(i * 37 % 300));
    pthread_cancel(thread);
    void* result;
    if (pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED) return 1;
  }
  return 0;
}

int storm(int times) {
  for (int i = 0; i < times / 4; ++i) {
    pthread_t threads[4];
    for (pthread_t& thread : threads)
      if (pthread_create(&thread, nullptr, one_pair, nullptr) != 0) return 1;
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  return 0;
}

pthread_barrier_t all_started;
void* wait_for_all(void*) {
  void* volatile block = malloc(kCountedSize);
  ++allocated;
  pthread_barrier_wait(&all_started);
  free(block);
  return nullptr;
}

int many() {
  static pthread_t threads[1000];
  pthread_barrier_init(&all_started, nullptr, 1000);
  for (pthread_t& thread : threads)
    if (pthread_create(&thread, nullptr, wait_for_all, nullptr) != 0) return 1;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return 0;
}

int forks() {
  pthread_t threads[3];
  for (pthread_t& thread : threads)
    if (pthread_create(&thread, nullptr, until_stopped, nullptr) != 0) return 1;
  int result = 0;
  for (int i = 0; i < 300; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      for (int k = 0; k < 200; ++k) pair();
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) result = 1;
  }
  stop = true;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return result;
}

int descriptors() {
  char name[] = "/tmp/trouble-XXXXXX";
  const int out = dup(1);
  const int file = mkstemp(name);
  unlink(name);
  for (int i = 3; i < 4096; ++i)
    if (i != file && i != out) close(i);
  for (int i = 3; i < 1100; ++i)
    if (i != file && i != out) dup2(file, i);
  for (int i = 0; i < 300'000; ++i) pair();
  return lseek(file, 0, SEEK_END) == 0 ? 0 : 1;  // the recorder did not write to it
}

}  // namespace

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const int number = argc > 2 ? atoi(argv[2]) : 0;
  int result = 2;
  if (strcmp(what, "cancel") == 0) result = cancel(number != 0 ? number : 1000);
  if (strcmp(what, "storm") == 0) result = storm(number != 0 ? number : 20'000);
  if (strcmp(what, "many") == 0) result = many();
  if (strcmp(what, "fork") == 0) result = forks();
  if (strcmp(what, "descriptors") == 0) result = descriptors();
  printf("%ld\n", allocated.load());
  return result;
}
