// Runs a function on all cores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace heapprof::symbols {

/// Calls `work` in as many threads as there are cores, but in at most `jobs`, and waits for all of them. The calling
/// thread is one of them. `work` must not throw.
inline void run_on_all_cores(std::size_t jobs, const std::function<void()>& work) {
  std::vector<std::thread> threads;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min(cores, jobs); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

}  // namespace heapprof::symbols
