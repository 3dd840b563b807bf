// Hooks of the functions by which a program ends without running the library's destructor, or executes another
// program: they take the last snapshot of resident pages.
//
// exit() does not call _exit by its symbol, so these hooks do not run after the destructor. execl, execlp and execle
// have no hook, because a hook cannot pass on a variable number of arguments without a stack of unlimited size;
// execveat has none, because not every supported libc has it.
//
// The functions are async-signal-safe, and are called by forked and vforked children.
#include <fcntl.h>
#include <unistd.h>

#include "preload/hooks/hook.h"
#include "preload/sys/kernel.h"

namespace heapprof::hooks {

namespace {

/// A program may try many paths, as a shell does in all directories of PATH, so nothing is done for a file that
/// cannot be executed.
void before_exec(const char* path) noexcept {
  if (recorder::has_own_trace() && !sys::failed(sys::call(SYS_faccessat, AT_FDCWD, sys::word(path), X_OK)))
    recorder::about_to_end();
}

/// For a file that libc searches in PATH unless its name has a slash.
void before_exec_by_name(const char* file) noexcept {
  for (const char* at = file; at != nullptr && *at != '\0'; ++at)
    if (*at == '/') return before_exec(file);
  recorder::about_to_end();
}

}  // namespace

HEAPPROF_HOOK(void, _exit, (int status)) {
  recorder::about_to_end();
  real::functions()._exit(status);
}

HEAPPROF_HOOK(void, _Exit, (int status)) {
  recorder::about_to_end();
  real::functions()._Exit(status);
}

HEAPPROF_HOOK(void, quick_exit, (int status)) {
  recorder::about_to_end();
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

HEAPPROF_HOOK(int, fexecve, (int descriptor, char* const* arguments, char* const* environment)) {
  recorder::about_to_end();
  return real::functions().fexecve(descriptor, arguments, environment);
}

}  // namespace heapprof::hooks
