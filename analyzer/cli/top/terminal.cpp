#include "analyzer/cli/top/terminal.h"

#define NCURSES_NOMACROS  // names like move() and timeout()
#include <curses.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <clocale>
#include <cstdint>
#include <cwchar>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "analyzer/cli/text/text_style.h"

namespace heapprof::cli {
namespace {

volatile sig_atomic_t end_wanted = 0;

void on_end(int) { end_wanted = 1; }

constexpr int kEndSignals[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT};

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  ::sigaction(signal, &action, nullptr);
}

/// How long the rest of the sequence of a key may take.
constexpr int kSequenceMs = 50;
constexpr int kEscape = 27;

/// Colours by their parameters of SGR (ECMA-48): those of TextPage.
struct Colour {
  std::string_view parameter;
  short colour;
};
constexpr Colour kColours[] = {{"31", COLOR_RED}, {"32", COLOR_GREEN}, {"33", COLOR_YELLOW}, {"36", COLOR_CYAN}};

attr_t attributes_of(std::string_view parameter) {
  if (parameter == "1") return A_BOLD;
  if (parameter == "2") return A_DIM;
  for (std::size_t i = 0; i < std::size(kColours); ++i)
    if (parameter == kColours[i].parameter) return static_cast<attr_t>(COLOR_PAIR(static_cast<int>(i) + 1));
  return A_NORMAL;
}

/// The first code point of `text`, which is clean UTF-8; removes it.
wchar_t take_code_point(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  text.remove_prefix(1);
  if (first < 0x80) return static_cast<wchar_t>(first);
  std::uint32_t code_point = first < 0xe0 ? first & 0x1fU : first < 0xf0 ? first & 0x0fU : first & 0x07U;
  for (; !text.empty() && (static_cast<unsigned char>(text.front()) & 0xc0U) == 0x80; text.remove_prefix(1))
    code_point = code_point << 6 | (static_cast<unsigned char>(text.front()) & 0x3fU);
  return static_cast<wchar_t>(code_point);
}

/// `character`, or a question mark if the locale does not have it.
wchar_t printable(wchar_t character) {
  std::array<char, MB_LEN_MAX> bytes;
  std::mbstate_t state{};
  return std::wcrtomb(bytes.data(), character, &state) == static_cast<std::size_t>(-1) || ::wcwidth(character) < 0
             ? L'?'
             : character;
}

void draw_line(int row, std::string_view text) {
  int left = COLS;
  ::wmove(stdscr, row, 0);
  while (!text.empty()) {
    if (text.front() == '\x1b') {
      const std::size_t end = std::min(text.find('m'), text.size() - 1);
      const std::string_view parameter = text.substr(2, end - 2);
      ::wattrset(stdscr, static_cast<int>(attributes_of(parameter)));
      text.remove_prefix(end + 1);
      continue;
    }
    const wchar_t character = printable(take_code_point(text));
    left -= ::wcwidth(character);
    if (left < 0) break;
    ::waddnwstr(stdscr, &character, 1);
  }
  ::wattrset(stdscr, A_NORMAL);
}

/// What follows an escape character: nothing, if the user has pressed that key.
KeyPress after_escape() {
  ::wtimeout(stdscr, kSequenceMs);
  int byte = ::wgetch(stdscr);
  const bool is_sequence = byte == '[' || byte == 'O';
  const bool is_key = byte == ERR;
  while (is_sequence && (byte = ::wgetch(stdscr)) != ERR)
    if (byte >= '@' && byte <= '~') break;
  ::wtimeout(stdscr, 0);
  return is_key ? KeyPress{Key::kBack} : KeyPress{};
}

/// Takes the size of the terminal. ncurses would prefer LINES and COLUMNS of the environment.
void take_size() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return;
  if (::is_term_resized(size.ws_row, size.ws_col)) ::resize_term(size.ws_row, size.ws_col);
  ::clearok(stdscr, TRUE);  // terminals differ in what they keep
}

KeyPress key_press(int code) {
  switch (code) {
    case kEscape: return after_escape();
    case KEY_UP: return {Key::kUp};
    case KEY_DOWN: return {Key::kDown};
    case KEY_PPAGE: return {Key::kPageUp};
    case KEY_NPAGE: return {Key::kPageDown};
    case KEY_HOME: return {Key::kHome};
    case KEY_END: return {Key::kEnd};
    case KEY_ENTER:
    case '\r':
    case '\n': return {Key::kEnter};
    case KEY_BACKSPACE:
    case '\b':
    case '\x7f': return {Key::kBack};
    case '\f': ::clearok(stdscr, TRUE); return {Key::kOther};
    case KEY_RESIZE: take_size(); return {};
    default: return code > 0 && code < 0x80 ? KeyPress{Key::kOther, static_cast<char>(code)} : KeyPress{};
  }
}

/// The environment's locale, because ncurses writes in its encoding.
void set_locale() {
  if (std::setlocale(LC_CTYPE, "") == nullptr && locale_is_utf8()) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

Terminal::Terminal() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kEndSignals) sigaddset(&signals, signal);
  for (const int signal : {SIGTSTP, SIGWINCH}) sigaddset(&signals, signal);
  ::pthread_sigmask(SIG_BLOCK, &signals, &signals_before_);
  for (const int signal : kEndSignals) handle(signal, on_end);
  set_locale();
  ::use_env(FALSE);
  ::use_tioctl(TRUE);
  // Handles SIGTSTP and SIGWINCH from now on.
  if (::newterm(nullptr, stdout, stdin) == nullptr)
    throw std::runtime_error("cannot draw on this terminal; add --once");
  take_size();
  ::cbreak();
  ::noecho();
  ::nonl();
  ::curs_set(0);
  ::keypad(stdscr, TRUE);
  ::set_escdelay(kSequenceMs);
  ::wtimeout(stdscr, 0);
  // Some terminals send these whatever mode they are in.
  static constexpr std::pair<const char*, int> kKeys[] = {
      {"\x1b[A", KEY_UP}, {"\x1b[B", KEY_DOWN}, {"\x1b[H", KEY_HOME},  {"\x1b[F", KEY_END},
      {"\x1bOA", KEY_UP}, {"\x1bOB", KEY_DOWN}, {"\x1b[1~", KEY_HOME}, {"\x1b[4~", KEY_END}};
  for (const auto& [sequence, key] : kKeys) ::define_key(sequence, key);
  if (::has_colors()) {
    ::start_color();
    ::use_default_colors();
    for (std::size_t i = 0; i < std::size(kColours); ++i)
      ::init_pair(static_cast<short>(i + 1), kColours[i].colour, -1);
  }
}

Terminal::~Terminal() {
  ::endwin();
  ::delscreen(::set_term(nullptr));
  for (const int signal : kEndSignals) handle(signal, SIG_DFL);
  for (const int signal : {SIGTSTP, SIGWINCH}) handle(signal, SIG_DFL);
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

Terminal::Size Terminal::size() const noexcept {
  return {static_cast<std::size_t>(std::max(COLS, 1)), static_cast<std::size_t>(std::max(LINES, 1))};
}

std::optional<KeyPress> Terminal::wait(int milliseconds) {
  // Keys that ncurses has read already come first.
  int code = ::wgetch(stdscr);
  if (code == ERR) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const timespec limit{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
    const int ready = ::ppoll(&input, 1, milliseconds < 0 ? nullptr : &limit, &signals_before_);
    code = ::wgetch(stdscr);
    if (ready > 0 && code == ERR) return std::nullopt;
  }
  if (end_wanted != 0) return std::nullopt;
  return code == ERR ? KeyPress{} : key_press(code);
}

void Terminal::draw(const std::vector<std::string>& lines) {
  ::werase(stdscr);
  const std::size_t count = std::min(lines.size(), size().lines);
  for (std::size_t i = 0; i < count; ++i) draw_line(static_cast<int>(i), lines[i]);
  ::wrefresh(stdscr);
}

}  // namespace heapprof::cli
