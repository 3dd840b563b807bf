// Overwrites its own mappings of the trace with random words, while three threads allocate.
//
// usage: overwritten_trace SECONDS
//
// Prints how many words it wrote and exits with status 0: the recorder trusts nothing that it reads from the
// mappings.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <atomic>

#include "tests/support/ledger.h"

namespace {

struct Range {
  char* begin;
  char* end;
};
Range ranges[64];
int range_count = 0;
std::atomic<bool> stop{false};

void find_trace() {
  range_count = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024];
  while (maps != nullptr && fgets(line, sizeof line, maps) != nullptr && range_count < 64) {
    unsigned long begin, end;
    if (strstr(line, ".heapprof") == nullptr || strstr(line, "rw-s") == nullptr) continue;
    if (sscanf(line, "%lx-%lx", &begin, &end) != 2) continue;
    ranges[range_count++] = {reinterpret_cast<char*>(begin), reinterpret_cast<char*>(end)};
  }
  if (maps != nullptr) fclose(maps);
}

[[gnu::noinline]] void nest(unsigned depth) {
  if (depth != 0) nest(depth - 1);
  else free(malloc(100));
  asm volatile("" ::: "memory");
}

void* allocate(void* argument) {
  ledger::Random random{reinterpret_cast<std::uint64_t>(argument)};
  void* blocks[64] = {};
  while (!stop) {
    void*& block = blocks[random.below(64)];
    free(block);
    block = malloc(random.below(3000));
    nest(static_cast<unsigned>(random.below(50)));
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 1;
  pthread_t threads[3];
  for (std::uint64_t i = 0; i < 3; ++i) pthread_create(&threads[i], nullptr, allocate, reinterpret_cast<void*>(i));
  ledger::Random random{99};
  timespec begin{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  long words = 0;
  do {
    // Only mappings that live as long as the program may be written: the header and the staging blocks. The recorder
    // unmaps extents of frames.
    find_trace();
    for (int round = 0; round < 20'000; ++round) {
      if (range_count == 0) return 1;
      const Range& range = ranges[random.below(static_cast<std::size_t>(range_count))];
      // The header and the staging blocks, of 4096 bytes (HEAPPROF_BLOCK_BYTES=4096).
      if (range.end - range.begin > 4096) continue;
      const std::size_t at = random.below(4096 / 8) * 8;
      const std::uint64_t value = random.below(3) == 0 ? ~std::uint64_t{0} >> random.below(64) : random.next();
      __atomic_store_n(reinterpret_cast<std::uint64_t*>(range.begin + at), value, __ATOMIC_RELAXED);
      ++words;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (static_cast<double>(now.tv_sec - begin.tv_sec) + static_cast<double>(now.tv_nsec - begin.tv_nsec) / 1e9 <
           seconds);
  stop = true;
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  printf("%ld\n", words);
  return 0;
}
