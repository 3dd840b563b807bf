#include "preload/recorder/process/program.h"

#include <sys/auxv.h>

#include <cstdint>

#include "preload/base/text.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::recorder {

namespace {

// Static: only one thread at a time starts the recorder, and it may be on a small stack.
constinit char g_program[4096] = "";
constinit char g_called_path[4096] = "";

/// The name that execve was given, as an absolute path; null where that name does not last. Uses g_called_path.
const char* called_path() noexcept {
  const auto* called = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (called == nullptr || *called == '\0') return nullptr;
  // For execveat of a descriptor the name is "/dev/fd/3" (execveat(2)).
  if (after_prefix(called, "/proc/") != nullptr || after_prefix(called, "/dev/fd/") != nullptr) return nullptr;
  if (*called == '/') return called;
  const long length = sys::call(SYS_getcwd, sys::word(g_called_path), sizeof g_called_path);
  if (sys::failed(length) || g_called_path[0] != '/') return nullptr;
  if (const char* rest = after_prefix(called, "./"); rest != nullptr) called = rest;
  const std::size_t directory_bytes = text_length(g_called_path);
  Text path(g_called_path + directory_bytes, sizeof g_called_path - directory_bytes);
  if (directory_bytes > 1) path.add('/');
  path.add(called);
  return path.overflowed() ? nullptr : g_called_path;
}

}  // namespace

const char* program_path() noexcept { return g_program; }

/// AT_PHDR is the program's also where the loader was executed, unlike /proc/self/exe (glibc, elf/rtld.c). Where the
/// program was executed by another name, a link to the same file (redis-server), that is the name its user knows; but
/// not under AT_SECURE, where the caller chooses that name.
void find_program() noexcept {
  if (g_program[0] == '/') return;  // a forked child: the same program, perhaps in another directory
  sys::Mapping mapping;
  if (!sys::find_mapping(getauxval(AT_PHDR), mapping, g_program, sizeof g_program) || g_program[0] != '/') {
    const long length = sys::readlink("/proc/self/exe", g_program, sizeof g_program - 1);
    g_program[length > 0 ? length : 0] = '\0';
  }
  const char* called = getauxval(AT_SECURE) == 0 ? called_path() : nullptr;
  sys::FileIdentity file, link;
  if (called != nullptr && text_length(called) < sizeof g_program && sys::identify(g_program, file) &&
      sys::identify(called, link) && file == link)
    Text(g_program).add(called);
}

}  // namespace heapprof::recorder
