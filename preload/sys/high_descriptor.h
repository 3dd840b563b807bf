// Numbers of descriptors that stay open while the process is recorded.
#pragma once

namespace heapprof::sys {

/// Moves a descriptor to a number that the host rarely uses, close-on-exec: from 1000 on, else from 100 on, else in
/// the upper quarter of the limit of open files. Returns the number, or -1 with `fd` unchanged: these numbers are in
/// use, or the limit is below 32, so that the host may need all of them.
int move_high(int fd) noexcept;

}  // namespace heapprof::sys
