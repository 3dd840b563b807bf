#include "preload/recorder/process/settings.h"

#include <initializer_list>

#include "preload/base/text.h"
#include "preload/recorder/process/log.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit Settings g_settings;

namespace {

constexpr const char* kLevelNames[] = {"off", "error", "warn", "info", "debug"};

bool read_switch(const char* value, bool& result) noexcept {
  for (const char* yes : {"1", "on", "yes"})
    if (text_equal(value, yes)) return result = true, true;
  for (const char* no : {"0", "off", "no"})
    if (text_equal(value, no)) return result = false, true;
  return false;
}

bool read_size(const char* value, std::uint64_t& result) noexcept {
  std::uint64_t number;
  if (!parse_number(value, number)) return false;
  unsigned shift = 0;
  switch (*value) {
    case 'k': case 'K': shift = 10; break;
    case 'm': case 'M': shift = 20; break;
    case 'g': case 'G': shift = 30; break;
    case 't': case 'T': shift = 40; break;
    case '\0': break;
    default: return false;
  }
  if (shift != 0 && value[1] != '\0') return false;
  if (shift != 0 && number >> (64 - shift) != 0) return false;
  result = number << shift;
  return true;
}

bool read_number(const char* value, std::uint64_t low, std::uint64_t high, std::uint32_t& result) noexcept {
  std::uint64_t number;
  if (!parse_number(value, number) || *value != '\0' || number < low || number > high) return false;
  result = static_cast<std::uint32_t>(number);
  return true;
}

bool read_text(const char* value, char* result, std::size_t size) noexcept {
  if (value[0] == '\0' || text_length(value) >= size) return false;
  Text(result, size).add(value);
  return true;
}

bool read_level(const char* value, LogLevel& result) noexcept {
  for (unsigned level = 0; level < 5; ++level)
    if (text_equal(value, kLevelNames[level])) return result = static_cast<LogLevel>(level), true;
  return false;
}

void warn_value(const char* name, const char* value, const char* allowed) noexcept {
  char buffer[512];
  log(LogLevel::kWarn, Text(buffer).add(name).add('=').add(value).add(" can't be read (").add(allowed)
                           .add("); the default is taken").c_str());
}

/// Whether `fd` is root's, of `type` (S_IFREG, S_IFDIR), and nobody else can change what it says.
bool is_roots_alone(int fd, unsigned type) noexcept {
  struct statx status;
  if (sys::failed(sys::call(SYS_statx, fd, sys::word(""), AT_EMPTY_PATH, STATX_TYPE | STATX_MODE | STATX_UID,
                            sys::word(&status))))
    return false;
  const bool others_write = (status.stx_mode & (S_IWGRP | S_IWOTH)) != 0;
  const bool sticky_folder = type == S_IFDIR && (status.stx_mode & S_ISVTX) != 0;
  return status.stx_uid == 0 && (status.stx_mode & S_IFMT) == type && (!others_write || sticky_folder);
}

/// Cuts `text` into its lines that are neither empty nor comments.
template <std::size_t kSize>
void split_lines(char* text, char* (&lines)[kSize]) noexcept {
  std::size_t count = 0;
  while (*text != '\0' && count + 1 < kSize) {
    char* const line = text;
    while (*text != '\0' && *text != '\n') ++text;
    char* end = text;
    if (*text != '\0') ++text;
    while (end != line && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) --end;
    *end = '\0';
    if (*line != '\0' && *line != '#') lines[count++] = line;
  }
  lines[count] = nullptr;
}

}  // namespace

const char* environment_value(char* const* environment, const char* name) noexcept {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const char* rest = after_prefix(*environment, name);
    if (rest != nullptr && *rest == '=') return rest + 1;
  }
  return nullptr;
}

void Settings::read(char* const* environment) noexcept {
  const auto with = [&](const char* name, const char* allowed, auto&& parse) noexcept {
    const char* value = environment_value(environment, name);
    if (value != nullptr && !parse(value)) warn_value(name, value, allowed);
  };
  const auto boolean = [&](const char* name, bool& result) noexcept {
    with(name, "on, off, 1, 0, yes or no", [&](const char* value) noexcept { return read_switch(value, result); });
  };
  with("HEAPPROF_LOG_FILE", "a path",
       [&](const char* v) noexcept { return read_text(v, log_file, sizeof log_file); });
  with("HEAPPROF_LOG", "off, error, warn, info or debug", [&](const char* v) noexcept { return read_level(v, log); });
  with("HEAPPROF_OUTPUT", "a path", [&](const char* v) noexcept { return read_text(v, output, sizeof output); });
  with("HEAPPROF_MAX_DEPTH", "1 to 65536",
       [&](const char* v) noexcept { return read_number(v, 1, 65536, max_depth); });
  with("HEAPPROF_MAX_FILE_SIZE", "a size such as 500M or 2G",
       [&](const char* v) noexcept { return read_size(v, max_file_bytes); });
  with("HEAPPROF_BLOCK_BYTES", "4096 to 65536", [&](const char* v) noexcept {
    std::uint32_t bytes;
    if (!read_number(v, 4096, 65536, bytes)) return false;
    block_bytes = bytes;
    return true;
  });
  boolean("HEAPPROF_SHADOW_STACK", shadow_stack);
  boolean("HEAPPROF_MMAP", mmap);
  boolean("HEAPPROF_FREE_STACKS", free_stacks);
  boolean("HEAPPROF_CHILDREN", children);
  boolean("HEAPPROF_PAUSED", paused);
  boolean("HEAPPROF_OWN_ALLOCATORS", own_allocators);
}

const char* Settings::read_trusted() noexcept {
  static char text[4096];
  const int fd = sys::open(kTrustedSettings, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (sys::failed(fd)) return "which can't be opened (heapprof install-secure makes it)";
  const bool trusted = is_roots_alone(fd, S_IFREG);
  const long length = trusted ? sys::pread(fd, text, sizeof text, 0) : 0;
  sys::close(fd);
  if (!trusted) return "which must be root's, and writable by nobody else";
  if (sys::failed(length) || length == sizeof text) return "which can't be read or is longer than 4095 bytes";
  text[length] = '\0';
  return read_trusted_text(text);
}

const char* Settings::read_trusted_text(char* text) noexcept {
  static char* lines[64];
  split_lines(text, lines);

  const char* directory = environment_value(lines, "HEAPPROF_DIRECTORY");
  if (directory == nullptr || directory[0] != '/') return "which names no HEAPPROF_DIRECTORY, by a whole path";
  const int folder = sys::open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const bool folder_trusted = !sys::failed(folder) && is_roots_alone(folder, S_IFDIR);
  if (!sys::failed(folder)) sys::close(folder);
  if (!folder_trusted)
    return "whose HEAPPROF_DIRECTORY must be a folder of root's, writable by nobody else unless it is sticky";

  read(lines);
  log_file[0] = '\0';
  Text path(output);
  for (const char* at = directory; *at != '\0'; ++at) {
    if (*at == '%') path.add('%');
    path.add(*at);
  }
  path.add("/heapprof.%e.%p.hprof");
  return path.overflowed() ? "whose HEAPPROF_DIRECTORY is too long" : nullptr;
}

std::size_t Settings::echo(char* buffer, std::size_t size) const noexcept {
  Text text(buffer, size);
  const auto line = [&](const char* name, std::uint64_t value) noexcept {
    text.add(name).add('=').number(value).add('\n');
  };
  text.add("HEAPPROF_LOG=").add(kLevelNames[static_cast<unsigned>(log)]).add('\n');
  line("HEAPPROF_SHADOW_STACK", shadow_stack);
  line("HEAPPROF_MAX_DEPTH", max_depth);
  line("HEAPPROF_MMAP", mmap);
  line("HEAPPROF_FREE_STACKS", free_stacks);
  line("HEAPPROF_CHILDREN", children);
  line("HEAPPROF_PAUSED", paused);
  line("HEAPPROF_OWN_ALLOCATORS", own_allocators);
  line("HEAPPROF_MAX_FILE_SIZE", max_file_bytes);
  line("HEAPPROF_BLOCK_BYTES", block_bytes);
  // Last and cut first: the only one that may not fit.
  text.add("HEAPPROF_OUTPUT=").add(output).add('\n');
  return text.length();
}

}  // namespace heapprof::recorder
