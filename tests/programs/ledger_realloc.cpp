// Reallocations in several threads.
//
// usage: ledger_realloc WORK [SEED] [THREADS]
//
// A realloc that moves its block frees the old address inside the call, and another thread may get that address
// before the call returns. A recorder that writes the realloc only afterwards would see the address allocated twice,
// and then the newer block freed. All threads share one arena, sizes exceed those of the thread caches, and threads
// exchange blocks, so this happens continuously.
#include <pthread.h>

#include <atomic>

#include "tests/support/sites.h"

namespace {

constexpr std::size_t kTable = 64;
std::atomic<void*> table[kTable];
std::uint64_t work;
std::uint64_t seed;

std::size_t some_size(ledger::Random& random) { return 1040 + 16 * random.below(300); }

void* run(void* argument) {
  ledger::attach(nullptr);
  ledger::Random random{seed * 1000 + reinterpret_cast<std::uint64_t>(argument)};
  for (std::uint64_t i = 0; i < work; ++i) {
    std::atomic<void*>& slot = table[random.below(kTable)];
    void* block = slot.exchange(nullptr);
    if (block == nullptr) block = site_malloc(some_size(random));
    else if (random.below(16) == 0) {
      site_free_stamped(block);
      block = nullptr;
    } else block = site_realloc_stamped(block, some_size(random));
    block = slot.exchange(block);
    if (block != nullptr) site_free_stamped(block);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  work = ledger::argument(argc, argv, 1, 20'000);
  seed = ledger::argument(argc, argv, 2, 1);
  const auto threads = static_cast<unsigned>(ledger::argument(argc, argv, 3, 4));
  mallopt(M_ARENA_MAX, 1);
  ledger::open(ledger::kSiteNames, threads + 1, static_cast<std::uint32_t>(2 * work + 16));
  ledger::set_phase(ledger::Phase::kWorking);
  static pthread_t handles[64];
  if (threads > 64) return 2;
  for (std::uint64_t i = 0; i < threads; ++i)
    if (pthread_create(&handles[i], nullptr, run, reinterpret_cast<void*>(i)) != 0) return 2;
  for (unsigned i = 0; i < threads; ++i) pthread_join(handles[i], nullptr);
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
