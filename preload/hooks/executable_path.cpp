// Hooks of readlink, realpath and related functions, for programs that are started through the dynamic loader
// (heapprof record of a file with capabilities, ld.so --preload).
//
// The kernel has executed the loader there, so /proc/self/exe names the loader. Node, Perl, Python and Rust's
// current_exe find their files by that link. These hooks return the program's path. Other paths are passed to libc.
#include <cstddef>

#include "preload/hooks/hook.h"
#include "preload/recorder/process/loader_start.h"

namespace heapprof::hooks {

namespace {

/// The program's path if `path` names the executable of this process, for which the kernel would return the loader's
/// path; else null.
inline const char* program_path(const char* path) noexcept {
  const char* program = recorder::program_started_by_loader();
  if (program == nullptr || path == nullptr) [[likely]]
    return nullptr;
  return recorder::names_own_executable(path) ? program : nullptr;
}

/// Copies as readlink does: truncated to the buffer, without a terminating null byte.
std::ptrdiff_t copy(const char* program, char* buffer, std::size_t bytes) noexcept {
  std::size_t length = 0;
  for (; length != bytes && program[length] != '\0'; ++length) buffer[length] = program[length];
  return static_cast<std::ptrdiff_t>(length);
}

}  // namespace

// The readlink hooks make the real call first, because it checks the buffer and reports errors.

HEAPPROF_HOOK(std::ptrdiff_t, readlink, (const char* path, char* buffer, std::size_t bytes)) {
  const std::ptrdiff_t result = real::functions().readlink(path, buffer, bytes);
  const char* program = result > 0 ? program_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(std::ptrdiff_t, __readlink_chk, (const char* path, char* buffer, std::size_t bytes, std::size_t room)) {
  const std::ptrdiff_t result = real::functions().__readlink_chk(path, buffer, bytes, room);
  const char* program = result > 0 ? program_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(std::ptrdiff_t, readlinkat, (int directory, const char* path, char* buffer, std::size_t bytes)) {
  const std::ptrdiff_t result = real::functions().readlinkat(directory, path, buffer, bytes);
  const char* program = result > 0 ? program_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(std::ptrdiff_t, __readlinkat_chk,
              (int directory, const char* path, char* buffer, std::size_t bytes, std::size_t room)) {
  const std::ptrdiff_t result = real::functions().__readlinkat_chk(directory, path, buffer, bytes, room);
  const char* program = result > 0 ? program_path(path) : nullptr;
  return program != nullptr ? copy(program, buffer, bytes) : result;
}

HEAPPROF_HOOK(char*, realpath, (const char* path, char* resolved)) {
  const char* program = program_path(path);
  return real::functions().realpath(program != nullptr ? program : path, resolved);
}

HEAPPROF_HOOK(char*, __realpath_chk, (const char* path, char* resolved, std::size_t room)) {
  const char* program = program_path(path);
  return real::functions().__realpath_chk(program != nullptr ? program : path, resolved, room);
}

HEAPPROF_HOOK(char*, canonicalize_file_name, (const char* path)) {
  const char* program = program_path(path);
  return real::functions().canonicalize_file_name(program != nullptr ? program : path);
}

}  // namespace heapprof::hooks
