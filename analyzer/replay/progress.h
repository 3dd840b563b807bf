// How the passes over a trace report their progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace heapprof::replay {

/// What was counted up to a moment of the recording.
struct SumsSoFar {
  std::uint64_t time_ns = 0;  ///< of the last event that was read, since the start; the clock is not final yet
  std::uint64_t live_bytes = 0;
  std::uint64_t live_blocks = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
};

struct Done {
  double share = 0;                              ///< 0 to 1, of all passes together
  std::uint64_t records = 0;                     ///< read so far
  std::optional<SumsSoFar> sums = std::nullopt;  ///< of a pass that counts the whole heap
};

/// Called now and then while a trace is read.
using Progress = std::function<void(const Done&)>;

}  // namespace heapprof::replay
