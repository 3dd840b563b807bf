// An allocator stress test after Larson and Krishnan ("Memory Allocation for Long-Running Server Applications",
// 1998): each thread replaces random blocks of its array, and passes the array to a new thread after each round, so
// that blocks are freed by other threads than those that allocated them. Prints operations (an allocation or a free)
// per second.
//
//   larson THREADS ROUNDS [background]     a round: 200,000 pairs in each thread
//
// With `background`, another thread executes a pair every 5 microseconds. These are few events, but because of them a
// recorder cannot treat THREADS = 1 as a program with a single thread.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kBlocks = 1000;
constexpr long kRound = 200'000;

// In separate cache lines, or the threads slow each other down (false sharing), with any recorder.
struct alignas(128) Worker {
  std::vector<void*> blocks = std::vector<void*>(kBlocks);
  std::uint64_t random = 1;

  void round() {
    for (long i = 0; i < kRound; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      void*& block = blocks[(random >> 33) % kBlocks];
      std::free(block);
      block = std::malloc(16 + (random >> 40) % 500);
    }
  }
};

// A thread runs for one round; its successor continues with its blocks.
void run(Worker& worker, int rounds) {
  for (int i = 0; i < rounds; ++i) std::thread([&] { worker.round(); }).join();
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 10;
  std::vector<Worker> workers(static_cast<std::size_t>(threads));
  std::vector<std::thread> drivers;
  std::atomic<bool> done{false};
  std::thread background;
  if (argc > 3) {
    background = std::thread([&] {
      while (!done) {
        std::free(std::malloc(16));
        const auto next = std::chrono::steady_clock::now() + std::chrono::microseconds(5);
        while (std::chrono::steady_clock::now() < next) {
        }
      }
    });
  }
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    workers[i].random = i * 7919 + 1;
    drivers.emplace_back([&worker = workers[i], rounds] { run(worker, rounds); });
  }
  for (std::thread& driver : drivers) driver.join();
  done = true;
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%.0f\n", 2.0 * kRound * rounds * threads / elapsed);
  if (background.joinable()) background.join();
  for (Worker& worker : workers)
    for (void* block : worker.blocks) std::free(block);
}
