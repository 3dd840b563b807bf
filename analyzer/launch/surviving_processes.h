// Finds processes that outlive the program: daemons and workers. They are child processes, which are not recorded
// without --children, so the recording is only of the short process that started them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapprof::launch {

/// The other processes whose environment has the HEAPPROF_SESSION of the process `pid` with `start_time` (as in
/// /proc), ascending. Processes whose environment cannot be read, or was replaced, are not found.
std::vector<int> survivors_of(int pid, std::uint64_t start_time);

/// A line that names the surviving processes; empty: there are none. `recorded`: children are recorded.
std::string note_of_survivors(int pid, std::uint64_t start_time, bool recorded);

}  // namespace heapprof::launch
