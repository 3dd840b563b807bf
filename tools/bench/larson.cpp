// A stress of the allocator in the manner of Larson and Krishnan ("Memory Allocation for Long-Running Server
// Applications", 1998): each thread replaces random blocks of its own array, and now and then hands the array
// to a new thread, so that blocks are freed by others than allocated them. Prints operations a second.
//
//   larson THREADS SECONDS
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
std::atomic<bool> g_stop{false};
std::atomic<long> g_operations{0};

struct Worker {
  std::vector<void*> blocks = std::vector<void*>(kBlocks);
  std::uint64_t random = 1;

  void round() {
    for (long i = 0; i < kRound && !g_stop.load(std::memory_order_relaxed); ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      void*& block = blocks[(random >> 33) % kBlocks];
      std::free(block);
      block = std::malloc(16 + (random >> 40) % 500);
      if (i % 1000 == 999) g_operations.fetch_add(2000, std::memory_order_relaxed);
    }
  }
};

void run(Worker& worker) {
  // A thread lives for a round; its successor goes on with its blocks.
  while (!g_stop) std::thread([&] { worker.round(); }).join();
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
  std::vector<Worker> workers(static_cast<std::size_t>(threads));
  std::vector<std::thread> drivers;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    workers[i].random = i * 7919 + 1;
    drivers.emplace_back([&worker = workers[i]] { run(worker); });
  }
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  g_stop = true;
  for (std::thread& driver : drivers) driver.join();
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%.0f\n", static_cast<double>(g_operations) / elapsed);
  for (Worker& worker : workers)
    for (void* block : worker.blocks) std::free(block);
}
