// Runs a function on all cores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace heapprof::symbols {

/// Calls `work` in as many threads as there are cores, but in at most `jobs`, and waits for all of them. The calling
/// thread is one of them, and the only one if no other can be started. `work` must not throw.
inline void run_on_all_cores(std::size_t jobs, const std::function<void()>& work) {
  struct Others {
    std::vector<std::thread> threads;
    ~Others() {
      for (std::thread& thread : threads) thread.join();
    }
  } others;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  try {
    for (std::size_t i = 1; i < std::min(cores, jobs); ++i) others.threads.emplace_back(work);
  } catch (const std::system_error&) {  // those that could be started are enough
  }
  work();
}

}  // namespace heapprof::symbols
