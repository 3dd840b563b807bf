// Allocates until it is killed: ledger_kill NANOSECONDS [SEED] [THREADS]
//
// A kernel timer with SIGKILL as its signal strikes NANOSECONDS after the threads set out, wherever they are
// then: in the program, the allocator, or the recorder. 0: no timer, somebody else does it. A thread whose
// ledger is full waits for the blow.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>

#include "tests/support/sites.h"

namespace {

constexpr std::uint32_t kEntries = 60'000;
constexpr std::size_t kTable = 64;
std::atomic<void*> table[kTable];
std::uint64_t seed;

[[gnu::noinline]] void step(ledger::Random& random, unsigned depth) {
  if (depth != 0) {
    step(random, depth - 1);
    asm volatile("" ::: "memory");
    return;
  }
  void* block = table[random.below(kTable)].exchange(nullptr);
  if (block == nullptr) block = random.below(3) == 0 ? site_calloc(1, 8 + random.below(500)) : site_small(8 + random.below(2000));
  else if (random.below(2) == 0) block = site_realloc_stamped(block, 8 + random.below(3000));
  block = table[random.below(kTable)].exchange(block);
  if (block != nullptr) site_free_stamped(block);
}

void* run(void* argument) {
  ledger::attach("victim");
  ledger::Random random{seed * 1000 + reinterpret_cast<std::uint64_t>(argument)};
  while (ledger::this_slot->used + 8 < kEntries) step(random, static_cast<unsigned>(random.below(20)));
  for (;;) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t delay_ns = ledger::argument(argc, argv, 1, 1'000'000);
  seed = ledger::argument(argc, argv, 2, 1);
  const auto threads = static_cast<unsigned>(ledger::argument(argc, argv, 3, 3));
  mallopt(M_ARENA_MAX, 1);
  ledger::open(ledger::kSiteNames, threads + 1, kEntries);
  if (delay_ns != 0) {
    sigevent event{};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    timer_t timer;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(delay_ns / 1'000'000'000);
    when.it_value.tv_nsec = static_cast<long>(delay_ns % 1'000'000'000);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, nullptr) != 0) {
      ledger::fail("ledger_kill: no timer");
      return 2;
    }
  }
  ledger::set_phase(ledger::Phase::kWorking);
  for (std::uint64_t i = 0; i < threads; ++i) {
    pthread_t handle;
    if (pthread_create(&handle, nullptr, run, reinterpret_cast<void*>(i)) != 0) return 2;
  }
  for (;;) pause();
}
