// Two threads that allocate alternately: one alone for a while, both for a moment, then the other one alone. All
// blocks have one size, are passed between the threads, and their addresses are reused immediately (the test disables
// glibc's per-thread caches). An event whose time is wrong by some nanoseconds therefore becomes an unmatched free,
// or an allocation of a live block.
//
//   alternating TURNS SEED
//
// Prints how many blocks each thread allocated, and how many both freed.
#include <malloc.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/support/ledger.h"

namespace {

constexpr std::size_t kSize = 64;
constexpr unsigned kBlocks = 64;

std::atomic<void*> g_blocks[kBlocks];
std::atomic<long> g_turn{0};  // the lowest bit is the number of the thread that may allocate
long g_turns;
long g_allocated[2];
long g_freed[2];

struct Thread {
  int number;
  std::mt19937 random;

  [[gnu::noinline]] void* allocate() {
    void* block = std::malloc(kSize);
    if (block == nullptr) std::abort();
    ++g_allocated[number];
    return block;
  }
  [[gnu::noinline]] void free_block(void* block) {
    if (block == nullptr) return;
    ++g_freed[number];
    std::free(block);
  }
  void swap_one() { free_block(g_blocks[random() % kBlocks].exchange(allocate())); }
  void drop_one() { free_block(g_blocks[random() % kBlocks].exchange(nullptr)); }
  void pair() { free_block(allocate()); }

  void work(long count) {
    for (long i = 0; i < count; ++i) {
      switch (random() % 4) {
        case 0: swap_one(); break;
        case 1: drop_one(); break;
        default: pair();
      }
    }
  }

  void run() {
    for (long turn; (turn = g_turn.load(std::memory_order_acquire)) < g_turns;) {
      if ((turn & 1) == number) {
        work(static_cast<long>(random() % (turn % 8 == 0 ? 20'000 : 600)));
        g_turn.store(turn + 1, std::memory_order_release);
        work(static_cast<long>(random() % 100));  // while the other thread begins
      }
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  g_turns = std::atol(argv[1]);
  mallopt(M_ARENA_MAX, 1);
  const std::uint64_t seed = ledger::argument(argc, argv, 2, 0) + ledger::added_seed();
  static Thread threads[2] = {{0, std::mt19937(seed)}, {1, std::mt19937(seed + 1000)}};
  pthread_t handles[2];
  for (int i = 0; i < 2; ++i)
    pthread_create(
        &handles[i], nullptr, [](void* thread) -> void* { return static_cast<Thread*>(thread)->run(), nullptr; },
        &threads[i]);
  for (pthread_t handle : handles) pthread_join(handle, nullptr);
  std::printf("%ld %ld %ld\n", g_allocated[0], g_allocated[1], g_freed[0] + g_freed[1]);
}
