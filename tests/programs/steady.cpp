// Runs steadily until SIGTERM, then exits with status 0: steady THREADS
//
// Each thread keeps at most 64 blocks and rests now and then, so that a recording of some seconds stays small.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/ledger.h"

namespace {
std::atomic<bool> stop{false};

[[gnu::noinline]] void churn(std::uint64_t seed) {
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
    usleep(1000);
  }
  for (void* block : blocks) free(block);
}
}  // namespace

int main(int argc, char** argv) {
  signal(SIGTERM, [](int) { stop = true; });
  const auto count = static_cast<unsigned>(ledger::argument(argc, argv, 1, 3));
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(churn, i);
  (void)!write(1, "up\n", 3);
  for (std::thread& thread : threads) thread.join();
  return 0;
}
