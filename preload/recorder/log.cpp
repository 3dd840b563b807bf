#include "preload/recorder/log.h"

#include "preload/recorder/text.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {
constinit sys::FileIdentity g_standard_error{};

bool standard_error_is_ours() noexcept {
  sys::FileIdentity now;
  return g_standard_error.inode == 0 || (sys::identify(2, now) && now == g_standard_error);
}
}  // namespace

void remember_standard_error() noexcept { sys::identify(2, g_standard_error); }

void log(LogLevel level, const char* message, const char* detail) noexcept {
  if (level > g_settings.log) return;
  char buffer[1536];
  Text line(buffer);
  line.add("heapprof: ");
  if (level == LogLevel::kError) line.add("error: ");
  if (level == LogLevel::kWarn) line.add("warning: ");
  line.add(message).add(detail);
  if (line.overflowed()) buffer[sizeof buffer - 2] = '\n';
  else line.add('\n');

  if (g_settings.log_file[0] == '\0') {
    if (standard_error_is_ours()) sys::write(2, buffer, line.length());
    return;
  }
  const int fd = sys::open(g_settings.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (sys::failed(fd)) return;
  sys::write(fd, buffer, line.length());
  sys::close(fd);
}

}  // namespace heapprof::recorder
