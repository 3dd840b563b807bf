// What a program leaves running: a daemon's process that does the work, or workers. They are its children, and so as
// a rule unrecorded, while the process that was started looks like a short and frugal program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heapprof::launch {

/// Processes whose environment names the session of the process `pid` that started at `start_time` (of /proc), other
/// than that one, ascending. Those whose environment can't be read, or that took another one, are not found.
std::vector<int> survivors_of(int pid, std::uint64_t start_time);

/// A line that names them; empty: there are none.
std::string note_of_survivors(int pid, std::uint64_t start_time, bool recorded);

}  // namespace heapprof::launch
