// How the passes over a trace report their progress.
#pragma once

#include <cstdint>
#include <functional>

namespace heapprof::replay {

/// Called now and then while a trace is read, with the share done (0 to 1, of all passes together) and the number of
/// records read so far.
using Progress = std::function<void(double share, std::uint64_t records)>;

}  // namespace heapprof::replay
