// Allocates and frees until SIGTERM, then exits with status 0.
//
// usage: steady THREADS
//
// Each thread has at most 64 live blocks and sleeps regularly, so that a recording of some seconds is small. After
// SIGUSR1 the program prints "round" when each thread has executed a complete round of 200 steps since then. With 0
// threads it allocates nothing.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/ledger.h"

namespace {
std::atomic<bool> stop{false};

[[gnu::noinline]] void churn(std::uint64_t seed, std::atomic<unsigned>& rounds) {
  ledger::Random random{seed};
  void* blocks[64] = {};
  while (!stop.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 200; ++i) {
      void*& block = blocks[random.below(64)];
      if (block != nullptr) {
        free(block);
        block = nullptr;
      } else {
        block = malloc(16 + random.below(500));
      }
    }
    ++rounds;
    usleep(4000);
  }
  for (void* block : blocks) free(block);
}
}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  const auto count = static_cast<unsigned>(ledger::argument(argc, argv, 1, 3));
  std::vector<std::atomic<unsigned>> rounds(count);
  std::vector<unsigned> wanted(count);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(churn, i, std::ref(rounds[i]));
  (void)!write(1, "up\n", 3);
  for (int signal = 0; sigwait(&signals, &signal) == 0 && signal != SIGTERM;) {
    // The current round may have begun before the signal.
    for (unsigned i = 0; i < count; ++i) wanted[i] = rounds[i] + 2;
    for (unsigned i = 0; i < count; ++i)
      while (static_cast<int>(rounds[i] - wanted[i]) < 0) usleep(200);
    (void)!write(1, "round\n", 6);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  return 0;
}
