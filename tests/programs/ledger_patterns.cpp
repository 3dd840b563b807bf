// Allocation patterns for histogram, churn, reallocs, threads and frees. Prints its own figures as JSON.
//
// Short-lived and long-lived blocks, buffers that grow by realloc, blocks that other threads free, and two call sites
// whose blocks two functions free. A second, idle thread makes the program multi-threaded.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#define SITE extern "C" [[gnu::noinline, gnu::used]]
#define KEEP_FRAME asm volatile("" ::: "memory")

SITE void* request_brief(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_pair(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_lasting(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_forever(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_shared(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_left(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* request_right(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* begin_buffer(std::size_t size) {
  void* block = malloc(size);
  KEEP_FRAME;
  return block;
}
SITE void* grow_buffer(void* old, std::size_t size) {
  void* block = realloc(old, size);
  KEEP_FRAME;
  return block;
}
SITE void* trim_buffer(void* old, std::size_t size) {
  void* block = realloc(old, size);
  KEEP_FRAME;
  return block;
}
SITE void free_here(void* block) {
  free(block);
  KEEP_FRAME;
}
SITE void free_there(void* block) {
  free(block);
  KEEP_FRAME;
}

namespace {

constexpr int kBrief = 700;
constexpr int kPairs = 150;
constexpr int kLasting = 60;
constexpr int kForever = 9;
constexpr int kShared = 400;
constexpr int kThreads = 2;

void* lasting[kLasting];
void* forever[kForever];
void* shared[kThreads][kShared];
unsigned tids[kThreads];
void* buffers[4];

void* idle(void*) {
  pause();
  return nullptr;
}

void* free_shared(void* argument) {
  const auto number = reinterpret_cast<std::uintptr_t>(argument);
  tids[number] = static_cast<unsigned>(syscall(SYS_gettid));
  // The second thread frees only a part; the allocating thread frees the rest.
  const int count = number == 0 ? kShared : kShared / 4;
  for (int i = 0; i < count; ++i) free(shared[number][i]);
  return nullptr;
}

struct Buffers {
  unsigned long long steps = 0, moved = 0, copied = 0, longest = 0;
};

void* step(void* (*how)(void*, std::size_t), void* old, std::size_t old_size, std::size_t size, Buffers& sums) {
  const auto before = reinterpret_cast<std::uintptr_t>(old);
  void* const block = how(old, size);
  ++sums.steps;
  if (reinterpret_cast<std::uintptr_t>(block) != before) {
    ++sums.moved;
    sums.copied += std::min(old_size, size);
  }
  return block;
}

}  // namespace

int main() {
  pthread_t second;
  if (pthread_create(&second, nullptr, idle, nullptr) != 0) return 2;
  for (int i = 0; i < kLasting; ++i) lasting[i] = request_lasting(1000);
  for (int i = 0; i < kBrief; ++i) free(request_brief(33));
  for (int i = 0; i < kPairs; ++i) {
    void* const first = request_pair(64);
    void* const second = request_pair(65);
    free(first);
    free(second);
  }

  for (int i = 0; i < kForever; ++i) forever[i] = request_forever(std::size_t{1} << i);

  Buffers grown, trimmed;
  void* barriers[4 * 64];
  int barrier_count = 0;
  for (int buffer = 0; buffer < 4; ++buffer) {
    std::size_t size = 16;
    void* block = begin_buffer(size);
    unsigned long long steps = 0;
    for (; size < (std::size_t{64} << buffer) * 16; size *= 2) {
      // A block after every second step, so that the buffer cannot always grow in place.
      barriers[barrier_count++] = steps % 2 == 0 ? malloc(24) : nullptr;
      block = step(grow_buffer, block, size, size * 2, grown);
      ++steps;
    }
    grown.longest = std::max(grown.longest, steps);
    if (buffer < 2) {
      block = step(trim_buffer, block, size, size / 4, trimmed);
      trimmed.longest = std::max(trimmed.longest, steps + 1);
    }
    if (buffer == 3) free(block);
    else buffers[buffer] = block;
  }
  for (int i = 0; i < barrier_count; ++i) free(barriers[i]);

  usleep(500'000);  // a wait for the processor makes the life of no brief block as long
  for (int i = 0; i < kLasting; ++i) free(lasting[i]);

  for (int thread = 0; thread < kThreads; ++thread)
    for (int i = 0; i < kShared; ++i) shared[thread][i] = request_shared(48 + 16 * static_cast<std::size_t>(thread));
  for (std::uintptr_t thread = 0; thread < kThreads; ++thread) {
    pthread_t handle;
    if (pthread_create(&handle, nullptr, free_shared, reinterpret_cast<void*>(thread)) != 0) return 2;
    pthread_join(handle, nullptr);
  }
  for (int i = kShared / 4; i < kShared; ++i) free(shared[1][i]);

  for (int i = 0; i < 30; ++i) free_here(request_left(10));
  for (int i = 0; i < 20; ++i) free_there(request_left(10));
  for (int i = 0; i < 7; ++i) free_here(request_right(20));
  for (int i = 0; i < 90; ++i) free_there(request_right(20));

  static char text[2048];
  const int used = snprintf(
      text, sizeof text,
      "{\"brief\": %d, \"pairs\": %d, \"lasting\": %d, \"forever\": %d, \"shared\": %d, \"tid\": %d, "
      "\"tids\": [%u, %u],\n"
      " \"grow\": {\"steps\": %llu, \"moved\": %llu, \"copied\": %llu, \"longest\": %llu},\n"
      " \"trim\": {\"steps\": %llu, \"moved\": %llu, \"copied\": %llu, \"longest\": %llu}}\n",
      kBrief, kPairs, kLasting, kForever, kShared, static_cast<int>(getpid()), tids[0], tids[1], grown.steps,
      grown.moved, grown.copied, grown.longest, trimmed.steps, trimmed.moved, trimmed.copied, trimmed.longest);
  return write(1, text, static_cast<std::size_t>(used)) == used ? 0 : 1;
}
