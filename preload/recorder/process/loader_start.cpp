#include "preload/recorder/process/loader_start.h"

#include <linux/capability.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "preload/base/text.h"
#include "preload/recorder/process/log.h"
#include "preload/sys/kernel.h"
#include "preload/sys/loader.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::recorder {

namespace {

constexpr const char* kCapabilities = "HEAPPROF_CAPABILITIES";

constinit char g_program[4096] = "";

/// Whether the file's name is like that of a loader. Only then /proc/self/maps is read.
bool may_be_loader(const char* path) noexcept {
  const char* name = base_name(path);
  return after_prefix(name, "ld-") != nullptr || after_prefix(name, "ld.so") != nullptr ||
         after_prefix(name, "ld64") != nullptr || after_prefix(name, "libc.so") != nullptr;  // musl's is libc
}

/// The loader's options that take a value (ld.so(8)).
constexpr const char* kOptionsWithValue[] = {"--argv0",
                                             "--preload",
                                             "--library-path",
                                             "--inhibit-rpath",
                                             "--audit",
                                             "--glibc-hwcaps-prepend",
                                             "--glibc-hwcaps-mask"};

bool takes_value(const char* option) noexcept {
  for (const char* name : kOptionsWithValue)
    if (text_equal(option, name)) return true;
  return false;
}

/// Reads hexadecimal digits at `text` and advances it past them.
std::uint64_t read_hex(const char*& text) noexcept {
  std::uint64_t value = 0;
  for (;; ++text) {
    const int digit = hex_digit(*text);
    if (digit < 0) return value;
    value = value << 4 | static_cast<unsigned>(digit);
  }
}

/// Removes a variable from the environment. Returns its value, or null.
const char* remove_variable(const char* name) noexcept {
  if (environ == nullptr) return nullptr;
  const char* found = nullptr;
  char** to = environ;
  for (char** from = environ; *from != nullptr; ++from) {
    const char* rest = after_prefix(*from, name);
    if (rest != nullptr && *rest == '=') {
      found = rest + 1;
    } else {
      *to++ = *from;
    }
  }
  *to = nullptr;
  return found;
}

void drop_ambient_capabilities(std::uint64_t inheritable, bool effective) noexcept {
  sys::call(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2];
  if (sys::failed(sys::call(SYS_capget, sys::word(&header), sys::word(sets)))) return;
  for (unsigned half = 0; half < 2; ++half) {
    sets[half].inheritable = static_cast<std::uint32_t>(inheritable >> (32 * half));
    if (!effective) sets[half].effective = 0;
  }
  if (sys::failed(sys::call(SYS_capset, sys::word(&header), sys::word(sets))))
    log(LogLevel::kWarn,
        "cannot restore the inheritable capabilities (capset): the program keeps those that "
        "'heapprof record' added");
}

}  // namespace

// With glibc, AT_PHDR is the address of the program's headers even if the loader was executed (elf/rtld.c). AT_BASE
// stays as the kernel has set it: to the address of the loader that it mapped for the program that was executed
// (Linux, fs/binfmt_elf.c), so to 0 if that is the loader itself.
void detect_loader_start() noexcept {
  static constinit bool done = false;
  if (done) return;
  done = true;
  if (getauxval(AT_BASE) != 0) return;
  char executed[256];
  const long length = sys::readlink("/proc/self/exe", executed, sizeof executed - 1);
  if (length <= 0) return;
  executed[length] = '\0';
  if (!may_be_loader(executed)) return;
  sys::Mapping mapping;
  const std::uint64_t musl_address = sys::musl_program_address();
  if (!sys::find_mapping(musl_address != 0 ? musl_address : getauxval(AT_PHDR), mapping, g_program,
                         sizeof g_program) ||
      g_program[0] != '/' || text_equal(g_program, executed))
    g_program[0] = '\0';
}

CommandLine command_line_without_loader(const char* text, std::size_t bytes) noexcept {
  const char* const end = text + bytes;
  const auto next = [end](const char* argument) noexcept {
    while (argument != end && *argument != '\0') ++argument;
    return argument == end ? end : argument + 1;
  };
  const char* name = nullptr;
  const char* at = next(text);  // skips the loader's own name
  while (at != end && after_prefix(at, "--") != nullptr) {
    const char* option = at;
    at = next(at);
    if (!takes_value(option)) continue;
    if (text_equal(option, "--argv0")) name = at;
    at = next(at);
  }
  if (name == nullptr) name = at;
  const char* rest = next(at);
  return {name, static_cast<std::size_t>(next(name) - name), rest, static_cast<std::size_t>(end - rest)};
}

const char* program_started_by_loader() noexcept { return g_program[0] != '\0' ? g_program : nullptr; }

void undo_loader_effects() noexcept {
  detect_loader_start();
  if (g_program[0] != '\0') sys::call(SYS_prctl, PR_SET_NAME, sys::word(base_name(g_program)), 0, 0, 0);
  const char* value = remove_variable(kCapabilities);
  if (value == nullptr || getauxval(AT_SECURE) != 0) return;
  const std::uint64_t process = read_hex(value);
  if (*value++ != ':' || process != static_cast<std::uint64_t>(sys::process_id())) return;
  const std::uint64_t inheritable = read_hex(value);
  if (*value++ == ':') drop_ambient_capabilities(inheritable, *value != '0');
}

bool names_own_executable(const char* path) noexcept {
  const char* rest = after_prefix(path, "/proc/");
  if (rest == nullptr) return false;
  if (text_equal(rest, "self/exe") || text_equal(rest, "thread-self/exe")) return true;
  std::uint64_t process;
  return parse_number(rest, process) && process == static_cast<std::uint64_t>(sys::process_id()) &&
         text_equal(rest, "/exe");
}

}  // namespace heapprof::recorder
