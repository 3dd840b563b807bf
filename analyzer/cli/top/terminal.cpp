#include "analyzer/cli/top/terminal.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace heapprof::cli {
namespace {

volatile sig_atomic_t end_wanted = 0;

void on_end(int) { end_wanted = 1; }
void on_resize(int) {}  // interrupts poll()

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // the next wait() finds that the terminal is gone
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

// Another page, no cursor, and no wrapping of wide lines.
constexpr std::string_view kBegin = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view kEnd = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// How long the rest of the sequence of a key may take.
constexpr int kSequenceMs = 50;

}  // namespace

bool Terminal::is_usable() {
  const char* const terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' && std::strcmp(terminal, "dumb") != 0 &&
         ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
}

Terminal::Terminal() {
  for (const int signal : {SIGTERM, SIGHUP, SIGINT}) handle(signal, on_end);
  handle(SIGWINCH, on_resize);
  ::tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
  raw.c_oflag &= ~static_cast<tcflag_t>(OPOST);
  raw.c_cc[VMIN] = 1;
  raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write_all(kBegin);
}

Terminal::~Terminal() {
  write_all(kEnd);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGWINCH}) handle(signal, SIG_DFL);
}

Terminal::Size Terminal::size() const noexcept {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

/// Nothing: there is none yet, or there will be none, in which case end_wanted is set.
std::optional<char> Terminal::next_byte(int milliseconds) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (end_wanted != 0 || ::poll(&input, 1, milliseconds) <= 0) return std::nullopt;
  char byte = 0;
  const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
  if (got == 1) return byte;
  if (got == 0 || errno != EINTR) end_wanted = 1;
  return std::nullopt;
}

/// What follows an escape character.
KeyPress Terminal::escape_sequence() {
  const std::optional<char> second = next_byte(kSequenceMs);
  if (!second || (*second != '[' && *second != 'O')) return {Key::kBack};
  std::string sequence;
  while (const std::optional<char> byte = next_byte(kSequenceMs)) {
    sequence += *byte;
    if (*byte >= '@' && *byte <= '~') break;
  }
  static constexpr std::pair<std::string_view, Key> kKeys[] = {
      {"A", Key::kUp},   {"B", Key::kDown}, {"5~", Key::kPageUp}, {"6~", Key::kPageDown},
      {"H", Key::kHome}, {"F", Key::kEnd},  {"1~", Key::kHome},   {"4~", Key::kEnd}};
  for (const auto& [text, key] : kKeys)
    if (sequence == text) return {key};
  return {};
}

std::optional<KeyPress> Terminal::wait(int milliseconds) {
  const std::optional<char> byte = next_byte(milliseconds);
  if (end_wanted != 0) return std::nullopt;
  if (!byte) return KeyPress{};
  constexpr char kControlC = 3;
  switch (*byte) {
    case kControlC: return std::nullopt;
    case '\x1b': return escape_sequence();
    case '\r':
    case '\n': return KeyPress{Key::kEnter};
    case '\b':
    case '\x7f': return KeyPress{Key::kBack};
    default: return KeyPress{Key::kOther, *byte};
  }
}

void Terminal::draw(const std::vector<std::string>& lines) {
  const std::size_t count = std::min(lines.size(), size().lines);
  std::string page = "\x1b[H";
  for (std::size_t i = 0; i < count; ++i) {
    if (i != 0) page += "\r\n";
    page += lines[i] + "\x1b[K";
  }
  page += "\x1b[J";
  write_all(page);
}

}  // namespace heapprof::cli
