#include "preload/recorder/process/program.h"

#include <sys/auxv.h>

#include <cstdint>

#include "preload/base/text.h"
#include "preload/sys/kernel.h"
#include "preload/sys/loader.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::recorder {

namespace {

// Static, because the thread that starts the recorder may have a small stack. Only one thread at a time does that.
constinit char g_program[4096] = "";
constinit char g_executed_path[4096] = "";

/// The path that was passed to execve, made absolute in g_executed_path; null if the path is only valid in this
/// process (/proc, /dev/fd), or unknown.
const char* executed_path() noexcept {
  const auto* executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (executed == nullptr || *executed == '\0') return nullptr;
  // For execveat of a descriptor the path is "/dev/fd/3" (execveat(2)).
  if (after_prefix(executed, "/proc/") != nullptr || after_prefix(executed, "/dev/fd/") != nullptr) return nullptr;
  if (*executed == '/') return executed;
  const long length = sys::call(SYS_getcwd, sys::word(g_executed_path), sizeof g_executed_path);
  if (sys::failed(length) || g_executed_path[0] != '/') return nullptr;
  if (const char* rest = after_prefix(executed, "./"); rest != nullptr) executed = rest;
  const std::size_t directory_bytes = text_length(g_executed_path);
  Text path(g_executed_path + directory_bytes, sizeof g_executed_path - directory_bytes);
  if (directory_bytes > 1) path.add('/');
  path.add(executed);
  return path.overflowed() ? nullptr : g_executed_path;
}

}  // namespace

const char* program_path() noexcept { return g_program; }

/// With glibc, AT_PHDR is the address of the program's headers even if the loader was executed; /proc/self/exe is
/// then the loader (elf/rtld.c). If the program was executed by a link to the same file (redis-server), the path of
/// the link is used, because the user knows the program by that name; but not under AT_SECURE, where the caller
/// chooses the link.
void find_program() noexcept {
  if (g_program[0] == '/') return;  // a forked child: the same program, perhaps in another directory
  sys::Mapping mapping;
  const std::uint64_t musl_address = sys::musl_program_address();
  if (!sys::find_mapping(musl_address != 0 ? musl_address : getauxval(AT_PHDR), mapping, g_program,
                         sizeof g_program) ||
      g_program[0] != '/') {
    const long length = sys::readlink("/proc/self/exe", g_program, sizeof g_program - 1);
    g_program[length > 0 ? length : 0] = '\0';
  }
  const char* executed = getauxval(AT_SECURE) == 0 ? executed_path() : nullptr;
  sys::FileIdentity file, link;
  if (executed != nullptr && !text_equal(executed, g_program) && text_length(executed) < sizeof g_program &&
      sys::identify(g_program, file) && sys::identify(executed, link) && file == link)
    Text(g_program).add(executed);
}

}  // namespace heapprof::recorder
