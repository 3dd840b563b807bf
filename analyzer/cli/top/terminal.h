// The terminal of `top`: keys without echo, and a page that is drawn over the last one and disappears at the end.
//
// It uses the control sequences of ECMA-48 that every terminal in use has, as the colours of all other commands do.
#pragma once

#include <termios.h>

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

/// At most one at a time.
class Terminal {
 public:
  /// Whether standard input and output are one that can be drawn on.
  static bool is_usable();

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

  /// Draws `lines`, which must be clean but for colours. What is too wide or too long is cut.
  void draw(const std::vector<std::string>& lines);

 private:
  std::optional<char> next_byte(int milliseconds);
  KeyPress escape_sequence();

  termios before_{};
};

}  // namespace heapprof::cli
