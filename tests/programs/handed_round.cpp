// Threads that hand few addresses round. An event whose time is wrong by some nanoseconds becomes an unmatched free
// or an allocation of a live block, or changes a peak.
//
//   handed_round blocks THREADS EVENTS SEED    random allocations, frees and reallocs, also failing ones, with the
//                                              allocator of plugins/reusing_malloc.c. Prints allocations and frees
//   handed_round budget THREADS EVENTS SEED SIZE COUNT   blocks of SIZE bytes, of which COUNT are live at most: a
//                                              thread allocates one only after another one was freed
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "tests/support/ledger.h"

namespace {

constexpr unsigned kBlocks = 64;
constexpr unsigned kMaxThreads = 16;

bool g_budget;
long g_events;
std::uint64_t g_seed;
std::size_t g_size;
std::atomic<long> g_left;  // blocks that may be allocated now
std::atomic<void*> g_blocks[kBlocks];
std::atomic<long> g_allocations, g_frees;
std::atomic<unsigned> g_waiting;

struct Thread {
  explicit Thread(std::uint64_t seed) : random(static_cast<std::uint32_t>(seed)) {}
  std::minstd_rand random;
  long allocations = 0, frees = 0;

  std::size_t some_size() { return 97 + random() % 32; }
  [[gnu::noinline]] void* allocate() {
    void* block = std::malloc(some_size());
    if (block == nullptr) std::abort();
    ++allocations;
    return block;
  }
  [[gnu::noinline]] void free_block(void* block) {
    if (block == nullptr) return;
    ++frees;
    std::free(block);
  }
  std::atomic<void*>& some_block() { return g_blocks[random() % kBlocks]; }

  /// A few steps with blocks that stay in this thread, so that it owns their page for a while.
  void pairs() {
    for (unsigned i = random() % 8; i != 0; --i) free_block(allocate());
  }

  void hand_round() {
    switch (random() % 8) {
      case 0: pairs(); break;
      case 1: free_block(some_block().exchange(nullptr)); break;
      case 2: {
        void* block = some_block().exchange(nullptr);
        if (block == nullptr) break;
        volatile std::size_t too_large = SIZE_MAX / 2 + 1;
        if (std::realloc(block, too_large) != nullptr) std::abort();
        free_block(some_block().exchange(block));
        break;
      }
      case 3: {
        void* block = some_block().exchange(nullptr);
        if (block == nullptr) break;
        block = std::realloc(block, some_size());
        if (block == nullptr) std::abort();
        ++allocations;
        ++frees;
        free_block(some_block().exchange(block));
        break;
      }
      default: free_block(some_block().exchange(allocate()));
    }
  }

  std::vector<void*> own;
  void use_budget() {
    for (unsigned i = random() % 6; i != 0; --i) std::free(std::malloc(24));
    if (random() % 4 == 0 && !own.empty()) {
      std::swap(own[random() % own.size()], own.back());
      std::free(own.back());
      own.pop_back();
      g_left.fetch_add(1, std::memory_order_release);
      return;
    }
    long left = g_left.load(std::memory_order_relaxed);
    while (left > 0 && !g_left.compare_exchange_weak(left, left - 1, std::memory_order_acquire)) {
    }
    if (left > 0) own.push_back(std::malloc(g_size));
  }

  void run() {
    own.reserve(4096);
    --g_waiting;
    while (g_waiting != 0) sched_yield();
    for (long i = 0; i < g_events; ++i) {
      g_budget ? use_budget() : hand_round();
      // So that threads also alternate on a busy machine, where each would work alone for milliseconds.
      if (random() % 64 == 0) sched_yield();
    }
    g_allocations += allocations;
    g_frees += frees;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  g_budget = std::strcmp(argv[1], "budget") == 0;
  const auto threads = static_cast<unsigned>(ledger::argument(argc, argv, 2, 3));
  g_events = static_cast<long>(ledger::argument(argc, argv, 3, 1000));
  g_seed = ledger::argument(argc, argv, 4, 0) + ledger::added_seed();
  g_size = ledger::argument(argc, argv, 5, 100'000);
  g_left = static_cast<long>(ledger::argument(argc, argv, 6, 400));
  if (threads > kMaxThreads) return 2;
  g_waiting = threads;
  pthread_t handles[kMaxThreads];
  for (std::uint64_t i = 0; i < threads; ++i)
    pthread_create(
        &handles[i], nullptr,
        [](void* number) -> void* {
          Thread thread(g_seed * 100 + reinterpret_cast<std::uint64_t>(number) + 1);
          thread.run();
          return nullptr;
        },
        reinterpret_cast<void*>(i));
  for (unsigned i = 0; i < threads; ++i) pthread_join(handles[i], nullptr);
  std::printf("%ld %ld\n", g_allocations.load(), g_frees.load());
}
