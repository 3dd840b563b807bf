// The terminal of `top`: keys without echo, and pages that replace each other and disappear at the end. By ncurses.
#pragma once

#include <csignal>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace heapprof::cli {

enum class Key { kNone, kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnter, kBack, kOther };

/// A key, or a character (kOther).
struct KeyPress {
  Key key = Key::kNone;
  char character = 0;
};

/// At most one at a time. Signals that end or stop the program are only delivered in wait(), so that they find the
/// terminal in a known state.
class Terminal {
 public:
  /// why_no_screen() (terminal_type.h) must be empty.
  Terminal();
  /// Shows what was on the terminal before.
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    std::size_t columns;
    std::size_t lines;
  };
  Size size() const noexcept;

  /// Waits for a key, at most `milliseconds` (negative: without limit). kNone: there was none; the size may have
  /// changed. Nothing: the terminal is gone, or the user wants to end the program with a signal.
  std::optional<KeyPress> wait(int milliseconds);

  /// Draws `lines`, clean UTF-8 with the colours of TextPage. What is too wide or too long is cut.
  void draw(const std::vector<std::string>& lines);

 private:
  sigset_t signals_before_{};
};

}  // namespace heapprof::cli
