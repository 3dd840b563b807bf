// A function that allocates for eight others, of which only two call it in some parts of the run:
//
//   after the mark "later"           user_0, user_1
//   in the thread "worker"           user_2, user_3
//   blocks of 1000 bytes or more     user_4, user_5; they are not freed
//
// So it is a helper in the whole recording, and in none of these parts by itself.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/heapprof.h"

#define SITE extern "C" [[gnu::noinline, gnu::used]]
#define KEEP_FRAME asm volatile("" ::: "memory")

SITE void* take(size_t size) {
  void* const block = malloc(size);
  memset(block, 1, size);
  KEEP_FRAME;
  return block;
}

#define USER(n)                                                      \
  SITE void* user_##n() {                                            \
    void* const block = take(n == 4 || n == 5 ? 1000 + n : 100 + n); \
    KEEP_FRAME;                                                      \
    return block;                                                    \
  }
USER(0)
USER(1)
USER(2)
USER(3)
USER(4)
USER(5)
USER(6)
USER(7)

namespace {

constexpr int kRounds = 20;

void* kept[4 * kRounds];

void run(void* (*first)(), void* (*second)()) {
  for (int round = 0; round < kRounds; ++round) {
    free(first());
    free(second());
  }
}

void* work(void*) {
  pthread_setname_np(pthread_self(), "worker");
  run(user_2, user_3);
  return nullptr;
}

}  // namespace

int main() {
  run(user_0, user_1);
  run(user_6, user_7);
  for (int round = 0; round < kRounds; ++round) {
    kept[2 * round] = user_4();
    kept[2 * round + 1] = user_5();
  }
  pthread_t worker;
  if (pthread_create(&worker, nullptr, work, nullptr) != 0) return 1;
  pthread_join(worker, nullptr);
  usleep(2000);
  heapprof_mark("later");
  run(user_0, user_1);
  kept[2 * kRounds] = user_0();
  kept[2 * kRounds + 1] = user_1();
}
