#include "preload/recorder/process/log.h"

#include <poll.h>

#include "preload/base/text.h"
#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {
enum class StandardError : std::uint8_t { kUnknown, kKnown, kClosed };
constinit StandardError g_standard_error_state = StandardError::kUnknown;
constinit sys::FileIdentity g_standard_error{};

bool standard_error_is_unchanged() noexcept {
  sys::FileIdentity now;
  return g_standard_error_state == StandardError::kUnknown ||
         (g_standard_error_state == StandardError::kKnown && sys::identify(2, now) && now == g_standard_error);
}

/// Writes nothing if the write would block (a full pipe). Consumes the signals that would end the host: SIGPIPE for a
/// pipe without a reader, SIGXFSZ for a file at its size limit.
void write_unnoticed(int fd, const char* line, std::size_t bytes) noexcept {
  pollfd ready{fd, POLLOUT, 0};
  const timespec now{};
  if (sys::call(SYS_ppoll, sys::word(&ready), 1, sys::word(&now), 0, 0) != 1 || (ready.revents & POLLOUT) == 0)
    return;
  constexpr int kBrokenPipe = -32, kTooBig = -27;
  // All signals but faults are blocked, so that no handler leaves by longjmp while SIGPIPE and SIGXFSZ are blocked.
  sys::BlockedSignals blocked(sys::kAllButFaults);
  const long result = sys::write(fd, line, bytes);
  blocked.restore(result == kBrokenPipe ? sys::signal_bit(SIGPIPE)
                  : result == kTooBig   ? sys::signal_bit(SIGXFSZ)
                                        : 0);
}

}  // namespace

void remember_standard_error() noexcept {
  constexpr long kNotOpen = -9;  // EBADF
  if (sys::identify(2, g_standard_error)) g_standard_error_state = StandardError::kKnown;
  else if (sys::call(SYS_fcntl, 2, F_GETFD) == kNotOpen) g_standard_error_state = StandardError::kClosed;
}

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
  if (g_settings.log_file[0] != '\0') {
    const int fd =
        sys::open(g_settings.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (!sys::failed(fd)) {
      write_unnoticed(fd, buffer, line.length());
      sys::close(fd);
      return;
    }
    // Otherwise the reason why nothing is recorded would be lost.
  }
  if (standard_error_is_unchanged()) write_unnoticed(2, buffer, line.length());
}

}  // namespace heapprof::recorder
