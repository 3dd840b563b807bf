// What goes differently for a program that is started through its loader, as `ld-linux --preload ... PROGRAM` and as
// the launcher starts programs with file capabilities: the kernel executes the loader, so the thread is called
// ld-linux, /proc/self/exe names the loader, and capabilities come as ambient ones, which every child would inherit.
// This sets it right.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::recorder {

/// The program's path when the loader was executed instead of it; null otherwise. Found by detect_loader_start().
const char* program_started_by_loader() noexcept;

/// While there is one thread; again, it does nothing.
void detect_loader_start() noexcept;

/// The program's own command line in the loader's (arguments that each end with 0, as /proc/PID/cmdline has them):
/// what the program is called, with its 0, and the arguments behind that.
struct CommandLine {
  const char* name;
  std::size_t name_bytes;
  const char* rest;
  std::size_t rest_bytes;
};
CommandLine command_line_without_loader(const char* text, std::size_t bytes) noexcept;

/// Once, by the library's constructor, before main and while there is one thread: names the thread as the kernel
/// would have, takes HEAPPROF_CAPABILITIES out of the environment and does what it says, if it is for this process.
///
/// HEAPPROF_CAPABILITIES is PID:INHERITABLE:EFFECTIVE, the numbers hexadecimal: the ambient set is cleared, the
/// inheritable one becomes INHERITABLE, and with EFFECTIVE 0 nothing stays effective, as after executing a file
/// without the effective bit.
void undo_loader_effects() noexcept;

/// True for a path that names this process's executable under /proc.
bool names_own_executable(const char* path) noexcept;

}  // namespace heapprof::recorder
