#include "preload/recorder/process/settings.h"

#include "preload/base/text.h"
#include "preload/recorder/process/log.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

constinit Settings g_settings;

namespace {

template <std::size_t kSize>
bool read_path(const char* value, char (&result)[kSize]) noexcept {
  if (!is_path_setting(value, kSize - 1)) return false;
  Text(result).add(value);
  return true;
}

/// Makes a path absolute, so that it names the same file after the host has changed its working directory. It stays
/// relative if that directory has no path, or if it would be too long.
template <std::size_t kSize>
void make_absolute(char (&path)[kSize]) noexcept {
  static char absolute[kSize];
  if (path[0] == '\0' || path[0] == '/' || sys::failed(sys::call(SYS_getcwd, sys::word(absolute), sizeof absolute)) ||
      absolute[0] != '/')
    return;
  const std::size_t directory_bytes = text_length(absolute);
  if (Text(absolute + directory_bytes, sizeof absolute - directory_bytes).add('/').add(path).overflowed()) return;
  Text(path).add(absolute);
}

bool read_in_range(const char* value, std::uint64_t low, std::uint64_t high, std::uint32_t& result) noexcept {
  std::uint64_t number;
  if (!parse_in_range(value, low, high, number)) return false;
  result = static_cast<std::uint32_t>(number);
  return true;
}

void warn_value(const char* name, const char* value, const char* expected) noexcept {
  char buffer[512];
  log(LogLevel::kWarn, Text(buffer)
                           .add(name)
                           .add(": invalid value '")
                           .add(value)
                           .add("'; expected ")
                           .add(expected)
                           .add("; the default is used")
                           .c_str());
}

/// Whether `fd` is of `type` (S_IFREG, S_IFDIR), is owned by root, and only root can write it. A sticky directory may
/// be writable by others.
bool is_controlled_by_root(int fd, unsigned type) noexcept {
  struct statx status;
  if (sys::failed(sys::call(SYS_statx, fd, sys::word(""), AT_EMPTY_PATH, STATX_TYPE | STATX_MODE | STATX_UID,
                            sys::word(&status))))
    return false;
  const bool others_write = (status.stx_mode & (S_IWGRP | S_IWOTH)) != 0;
  const bool sticky_directory = type == S_IFDIR && (status.stx_mode & S_ISVTX) != 0;
  return status.stx_uid == 0 && (status.stx_mode & S_IFMT) == type && (!others_write || sticky_directory);
}

/// Splits `text` into lines, without empty ones and comments. Overwrites `text`.
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
  const auto with = [&](const char* name, const char* expected, auto&& parse) noexcept {
    const char* value = environment_value(environment, name);
    if (value != nullptr && !parse(value)) warn_value(name, value, expected);
  };
  const auto boolean = [&](const char* name, bool& result) noexcept {
    with(name, kExpectedSwitch, [&](const char* value) noexcept { return parse_switch(value, result); });
  };
  with("HEAPPROF_LOG_FILE", "a path", [&](const char* value) noexcept { return read_path(value, log_file); });
  make_absolute(log_file);
  with("HEAPPROF_LOG", kExpectedLogLevel, [&](const char* value) noexcept { return parse_log_level(value, log); });
  with("HEAPPROF_OUTPUT", "a path", [&](const char* value) noexcept { return read_path(value, output); });
  with("HEAPPROF_LABELS", kExpectedLabels, [&](const char* value) noexcept {
    if (!is_labels_setting(value)) return false;
    Text(labels).add(value);
    return true;
  });
  with("HEAPPROF_MAX_DEPTH", kExpectedDepth, [&](const char* value) noexcept {
    return read_in_range(value, kMinSettingDepth, kMaxSettingDepth, max_depth);
  });
  with("HEAPPROF_MAX_FILE_SIZE", kExpectedSize,
       [&](const char* value) noexcept { return parse_size(value, max_file_bytes); });
  with("HEAPPROF_BLOCK_BYTES", "a number from 4096 to 65536",
       [&](const char* value) noexcept { return read_in_range(value, 4096, 65536, block_bytes); });
  boolean("HEAPPROF_SHADOW_STACK", shadow_stack);
  boolean("HEAPPROF_MMAP", mmap);
  boolean("HEAPPROF_FREE_STACKS", free_stacks);
  boolean("HEAPPROF_CHILDREN", children);
  boolean("HEAPPROF_PAUSED", paused);
  boolean("HEAPPROF_SNAPSHOTS", snapshots);
  // The first is the old name of the variable, which is read for one more release. If both are set, the new name
  // applies.
  boolean("HEAPPROF_OWN_ALLOCATORS", embedded_allocators);
  boolean("HEAPPROF_EMBEDDED_ALLOCATORS", embedded_allocators);
  boolean("HEAPPROF_PYTHON", python);
}

const char* Settings::read_trusted() noexcept {
  static char text[4096];
  const int fd = sys::open(kTrustedSettings, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (sys::failed(fd)) return "which cannot be opened; create it with 'heapprof install-secure'";
  const bool trusted = is_controlled_by_root(fd, S_IFREG);
  const long length = trusted ? sys::pread(fd, text, sizeof text, 0) : 0;
  sys::close(fd);
  if (!trusted) return "which must be a regular file that is owned by root and that only root can write";
  if (sys::failed(length) || length == sizeof text) return "which cannot be read, or is longer than 4095 bytes";
  text[length] = '\0';
  return read_trusted_text(text);
}

const char* Settings::read_trusted_text(char* text) noexcept {
  static char* lines[64];
  split_lines(text, lines);

  const char* directory = environment_value(lines, "HEAPPROF_DIRECTORY");
  if (directory == nullptr || directory[0] != '/') return "which must set HEAPPROF_DIRECTORY to an absolute path";
  const int descriptor = sys::open(directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const bool directory_trusted = !sys::failed(descriptor) && is_controlled_by_root(descriptor, S_IFDIR);
  if (!sys::failed(descriptor)) sys::close(descriptor);
  if (!directory_trusted)
    return "whose HEAPPROF_DIRECTORY must be a directory that is owned by root, and that only root can write or that "
           "is sticky";

  read(lines);
  log_file[0] = '\0';
  Text path(output);
  for (const char* at = directory; *at != '\0'; ++at) {
    if (*at == '%') path.add('%');
    path.add(*at);
  }
  path.add('/').add(kDefaultOutput);
  return path.overflowed() ? "whose HEAPPROF_DIRECTORY is too long" : nullptr;
}

std::size_t Settings::echo(char* buffer, std::size_t size) const noexcept {
  Text text(buffer, size);
  const auto line = [&](const char* name, std::uint64_t value) noexcept {
    text.add(name).add('=').number(value).add('\n');
  };
  text.add("HEAPPROF_LOG=").add(kLogLevelNames[static_cast<unsigned>(log)]).add('\n');
  line("HEAPPROF_SHADOW_STACK", shadow_stack);
  line("HEAPPROF_MAX_DEPTH", max_depth);
  line("HEAPPROF_MMAP", mmap);
  line("HEAPPROF_FREE_STACKS", free_stacks);
  line("HEAPPROF_CHILDREN", children);
  line("HEAPPROF_PAUSED", paused);
  line("HEAPPROF_SNAPSHOTS", snapshots);
  line("HEAPPROF_EMBEDDED_ALLOCATORS", embedded_allocators);
  line("HEAPPROF_PYTHON", python);
  line("HEAPPROF_MAX_FILE_SIZE", max_file_bytes);
  line("HEAPPROF_BLOCK_BYTES", block_bytes);
  text.add("HEAPPROF_LABELS=").add(labels).add('\n');
  // The path may exceed the space in the header and be truncated, so it comes last.
  text.add("HEAPPROF_OUTPUT=").add(output).add('\n');
  return text.length();
}

}  // namespace heapprof::recorder
