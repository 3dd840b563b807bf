// Threads that pass blocks to each other.
//
// usage: ledger_threads WORK [SEED] [THREADS] [WAVES]
//
// Each thread allocates a block, exchanges it for the block in a random slot of a shared table, and frees the latter.
// So most blocks are freed by another thread than the one that allocated them, while other threads allocate blocks of
// the same sizes: addresses are reused immediately. All threads share one arena. THREADS threads, each with its own
// name, are started and joined WAVES times. The blocks that remain in the table are live at the end.
#include <pthread.h>

#include <atomic>
#include <cstdio>

#include "tests/support/sites.h"

namespace {

constexpr std::size_t kTable = 256;
std::atomic<void*> table[kTable];
std::uint64_t work;
std::uint64_t seed;

// Most sizes exceed those of the thread caches, so that any thread can get a freed block.
std::size_t some_size(ledger::Random& random) {
  static constexpr std::size_t kSizes[] = {16, 24, 40, 100, 1100, 1500, 2000, 3000, 5000};
  return kSizes[random.below(sizeof kSizes / sizeof kSizes[0])];
}

[[gnu::noinline]] void exchange(ledger::Random& random) {
  void* mine;
  switch (random.below(8)) {
    case 0: mine = site_calloc(1, some_size(random)); break;
    case 1: mine = site_memalign(64, some_size(random)); break;
    case 2: mine = site_new(some_size(random)); break;
    case 3: mine = site_large(some_size(random)); break;
    default: mine = site_small(some_size(random)); break;
  }
  if (random.below(8) == 0) {  // keep the block for a moment
    site_free_stamped(mine);
    return;
  }
  void* other = table[random.below(kTable)].exchange(mine);
  if (other != nullptr) site_free_stamped(other);
}

struct Start {
  unsigned number;
  char name[16];
};

void* run(void* argument) {
  const Start& start = *static_cast<const Start*>(argument);
  ledger::attach(start.name);
  ledger::Random random{seed * 1000 + start.number};
  for (std::uint64_t i = 0; i < work; ++i) exchange(random);
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  work = ledger::argument(argc, argv, 1, 10'000);
  seed = ledger::argument(argc, argv, 2, 1);
  const auto threads = static_cast<unsigned>(ledger::argument(argc, argv, 3, 4));
  const auto waves = static_cast<unsigned>(ledger::argument(argc, argv, 4, 3));
  mallopt(M_ARENA_MAX, 1);
  ledger::open(ledger::kSiteNames, threads * waves + 1, static_cast<std::uint32_t>(2 * work + 16));
  ledger::set_phase(ledger::Phase::kWorking);
  static Start starts[256];
  static pthread_t handles[256];
  if (threads * waves > 256) return 2;
  for (unsigned wave = 0; wave < waves; ++wave) {
    for (unsigned i = 0; i < threads; ++i) {
      const unsigned number = wave * threads + i;
      starts[number].number = number;
      snprintf(starts[number].name, sizeof starts[number].name, "wave%u-thread%u", wave, i);
      if (pthread_create(&handles[number], nullptr, run, &starts[number]) != 0) return 2;
    }
    for (unsigned i = 0; i < threads; ++i) pthread_join(handles[wave * threads + i], nullptr);
  }
  ledger::set_phase(ledger::Phase::kFinished);
  return ledger::status();
}
