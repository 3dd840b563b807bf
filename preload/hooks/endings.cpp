// Hooks of the functions by which a program ends without running the library's destructor, or executes another
// program: they take the last snapshot of resident pages.
//
// exit() does not call _exit by its symbol, so these hooks do not run after the destructor. execveat has no hook,
// because not every supported libc has it.
//
// The functions are async-signal-safe, and are called by forked and vforked children.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>

#include "preload/hooks/hook.h"
#include "preload/sys/kernel.h"

namespace heapprof::hooks {

namespace {

/// A program may try many paths, as a shell does in all directories of PATH, so nothing is done for a file that
/// cannot be executed.
void before_exec(const char* path) noexcept {
  if (recorder::has_own_trace() && !sys::failed(sys::call(SYS_faccessat, AT_FDCWD, sys::word(path), X_OK)))
    recorder::about_to_end(recorder::Ending::kExec);
}

/// For a file that libc searches in PATH unless its name has a slash.
void before_exec_by_name(const char* file) noexcept {
  for (const char* at = file; at != nullptr && *at != '\0'; ++at)
    if (*at == '/') return before_exec(file);
  recorder::about_to_end(recorder::Ending::kExec);
}

/// The arguments of a variadic function as an array, which ends with a null pointer. If there are many, it is in a
/// mapping, which stays behind when a child that shares our memory executes a program.
class Arguments {
 public:
  /// Reads `first` and what follows, with the null pointer. If there is no memory, errno is set, and array() is null.
  Arguments(const char* first, va_list* rest) noexcept {
    va_list counted;
    va_copy(counted, *rest);
    std::size_t count = 1;
    for (const char* argument = first; argument != nullptr; argument = va_arg(counted, const char*)) ++count;
    va_end(counted);
    if (count > kRoom) {
      mapped_bytes_ = count * sizeof *array_;
      void* const memory =
          real::functions().mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      array_ = memory == MAP_FAILED ? nullptr : static_cast<const char**>(memory);
      if (array_ == nullptr) return;
    }
    array_[0] = first;
    for (std::size_t i = 1; i < count; ++i) array_[i] = va_arg(*rest, const char*);
  }
  char* const* array() const noexcept { return const_cast<char* const*>(array_); }
  /// Keeps errno. Not a destructor, which a longjmp would skip.
  void release() noexcept {
    if (mapped_bytes_ != 0) sys::unmap(array_, mapped_bytes_);
  }

 private:
  static constexpr std::size_t kRoom = 32;
  const char* room_[kRoom];
  const char** array_ = room_;
  std::size_t mapped_bytes_ = 0;
};

/// Calls `execute` with the arguments, if there is memory for them.
template <typename Execute>
int execute_with(Arguments& arguments, Execute&& execute) noexcept {
  if (arguments.array() == nullptr) return -1;
  const int result = execute(arguments.array());
  arguments.release();
  return result;
}

}  // namespace

HEAPPROF_HOOK(void, _exit, (int status)) {
  recorder::about_to_end(recorder::Ending::kExit);
  real::functions()._exit(status);
}

HEAPPROF_HOOK(void, _Exit, (int status)) {
  recorder::about_to_end(recorder::Ending::kExit);
  real::functions()._Exit(status);
}

HEAPPROF_HOOK(void, quick_exit, (int status)) {
  recorder::about_to_end(recorder::Ending::kExit);
  real::functions().quick_exit(status);
}

HEAPPROF_HOOK(int, execve, (const char* path, char* const* arguments, char* const* environment)) {
  before_exec(path);
  return real::functions().execve(path, arguments, environment);
}

HEAPPROF_HOOK(int, execv, (const char* path, char* const* arguments)) {
  before_exec(path);
  return real::functions().execv(path, arguments);
}

HEAPPROF_HOOK(int, execvp, (const char* file, char* const* arguments)) {
  before_exec_by_name(file);
  return real::functions().execvp(file, arguments);
}

HEAPPROF_HOOK(int, execvpe, (const char* file, char* const* arguments, char* const* environment)) {
  before_exec_by_name(file);
  return real::functions().execvpe(file, arguments, environment);
}

// As libc does, these call the function that takes an array.

HEAPPROF_HOOK(int, execl, (const char* path, const char* first, ...)) {
  before_exec(path);
  va_list rest;
  va_start(rest, first);
  Arguments arguments(first, &rest);
  va_end(rest);
  return execute_with(arguments, [=](char* const* array) { return real::functions().execv(path, array); });
}

HEAPPROF_HOOK(int, execlp, (const char* file, const char* first, ...)) {
  before_exec_by_name(file);
  va_list rest;
  va_start(rest, first);
  Arguments arguments(first, &rest);
  va_end(rest);
  return execute_with(arguments, [=](char* const* array) { return real::functions().execvp(file, array); });
}

HEAPPROF_HOOK(int, execle, (const char* path, const char* first, ...)) {
  before_exec(path);
  va_list rest;
  va_start(rest, first);
  Arguments arguments(first, &rest);
  char* const* const environment = arguments.array() != nullptr ? va_arg(rest, char* const*) : nullptr;
  va_end(rest);
  return execute_with(arguments,
                      [=](char* const* array) { return real::functions().execve(path, array, environment); });
}

HEAPPROF_HOOK(int, fexecve, (int descriptor, char* const* arguments, char* const* environment)) {
  recorder::about_to_end(recorder::Ending::kExec);
  return real::functions().fexecve(descriptor, arguments, environment);
}

}  // namespace heapprof::hooks
