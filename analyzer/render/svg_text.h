// Elements of an SVG picture as text.
#pragma once

#include <string>
#include <string_view>

namespace heapprof::render {

/// Appends `value` with at most `decimals` decimals and without trailing zeros: "12.5", "12".
void append_number(std::string& out, double value, int decimals);

/// The text of an SVG picture while it is written. Numbers have one decimal: a tenth of a pixel.
class SvgText {
 protected:
  void number(double value) { append_number(text_, value, 1); }
  /// ` NAME="VALUE"`
  void attribute(const char* name, double value);
  /// A straight line of the CSS class `style`.
  void line(const char* style, double x1, double y1, double x2, double y2);
  /// A text element. `label` is clean (utf8.h); `attributes` are written as they are.
  void label(double x, double y, std::string_view attributes, std::string_view label);

  std::string text_;
};

}  // namespace heapprof::render
