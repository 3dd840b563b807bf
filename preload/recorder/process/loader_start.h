// Programs that are started through their loader: `ld-linux --preload ... PROGRAM`, and programs with file
// capabilities, which `heapprof record` starts this way. The kernel executes the loader, so three things differ from
// a direct start: the thread's name is the loader's, /proc/self/exe is the loader, and capabilities are raised as
// ambient ones, which every child would inherit. The functions here undo that.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::recorder {

/// Detects whether the loader was executed. Call it while there is one thread; further calls do nothing.
void detect_loader_start() noexcept;

/// The program's path if the loader was executed instead of the program, else null. Valid after
/// detect_loader_start().
const char* program_started_by_loader() noexcept;

/// The program's own command line within the loader's. Arguments each end with NUL, as in /proc/PID/cmdline.
struct CommandLine {
  const char* name;        ///< argv[0] of the program
  std::size_t name_bytes;  ///< with its NUL
  const char* rest;        ///< the arguments after it
  std::size_t rest_bytes;
};
CommandLine command_line_without_loader(const char* text, std::size_t bytes) noexcept;

/// Gives the thread the name that the kernel would have given it, removes HEAPPROF_CAPABILITIES from the environment,
/// and applies that variable if it is for this process. Called once by the library's constructor, before main and
/// while there is one thread.
///
/// HEAPPROF_CAPABILITIES is PID:INHERITABLE:EFFECTIVE with hexadecimal numbers. The ambient set is cleared and the
/// inheritable set becomes INHERITABLE. If EFFECTIVE is 0, the effective set is cleared, as the kernel does when it
/// executes a file without the effective bit.
void undo_loader_effects() noexcept;

/// True for a path that is this process's executable under /proc, such as /proc/self/exe.
bool names_own_executable(const char* path) noexcept;

}  // namespace heapprof::recorder
