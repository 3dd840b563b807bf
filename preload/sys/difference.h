// What a checked build (HEAPPROF_CHECK_STACKS) does when a stack differs from the one that it must be equal to. Other
// builds do not contain it.
#pragma once

namespace heapprof::sys {

/// The file to which differences are appended, also by forked children. It must remain. Empty: standard error.
void append_differences_to(const char* path) noexcept;

/// Appends the line "heapprof: difference: WHAT" to that file, or writes it to standard error if the file cannot be
/// opened. Then ends the program by an invalid instruction.
[[noreturn]] void report_difference(const char* what) noexcept;

}  // namespace heapprof::sys
