// readlink, realpath and their kin: a program that was started through its loader asks /proc/self/exe where it lies,
// and the kernel would say: in the loader's place. Node, perl, Python and Rust's current_exe find their files that
// way. Everything else goes to libc as it is.
#include <cstddef>

#include "preload/hooks/hook.h"
#include "preload/recorder/process/loader_start.h"

namespace heapprof::hooks {

namespace {

/// The program's path if `path` asks for it and the kernel's answer would be wrong; else null.
inline const char* own_path(const char* path) noexcept {
  const char* program = recorder::program_started_by_loader();
  if (program == nullptr || path == nullptr) [[likely]] return nullptr;
  return recorder::names_own_executable(path) ? program : nullptr;
}

/// readlink's answer: cut to the buffer, without an end.
std::ptrdiff_t copy(const char* program, char* buffer, std::size_t bytes) noexcept {
  std::size_t length = 0;
  for (; length != bytes && program[length] != '\0'; ++length) buffer[length] = program[length];
  return static_cast<std::ptrdiff_t>(length);
}

}  // namespace

// The real call comes first: it checks the buffer, and what is wrong with that.

HEAPPROF_HOOK(std::ptrdiff_t, readlink, (const char* path, char* buffer, std::size_t bytes)) {
  const std::ptrdiff_t result = real().readlink(path, buffer, bytes);
  const char* program = result > 0 ? own_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(std::ptrdiff_t, __readlink_chk, (const char* path, char* buffer, std::size_t bytes, std::size_t room)) {
  const std::ptrdiff_t result = real().__readlink_chk(path, buffer, bytes, room);
  const char* program = result > 0 ? own_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(std::ptrdiff_t, readlinkat, (int folder, const char* path, char* buffer, std::size_t bytes)) {
  const std::ptrdiff_t result = real().readlinkat(folder, path, buffer, bytes);
  const char* program = result > 0 ? own_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(std::ptrdiff_t, __readlinkat_chk,
              (int folder, const char* path, char* buffer, std::size_t bytes, std::size_t room)) {
  const std::ptrdiff_t result = real().__readlinkat_chk(folder, path, buffer, bytes, room);
  const char* program = result > 0 ? own_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(char*, realpath, (const char* path, char* resolved)) {
  const char* program = own_path(path);
  return real().realpath(program != nullptr ? program : path, resolved);
}

HEAPPROF_HOOK(char*, __realpath_chk, (const char* path, char* resolved, std::size_t room)) {
  const char* program = own_path(path);
  return real().__realpath_chk(program != nullptr ? program : path, resolved, room);
}

HEAPPROF_HOOK(char*, canonicalize_file_name, (const char* path)) {
  const char* program = own_path(path);
  return real().canonicalize_file_name(program != nullptr ? program : path);
}

}  // namespace heapprof::hooks
