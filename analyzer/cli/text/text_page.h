// Lines, rows, tables and bars of text output, in the width, colours and characters of a TextStyle.
//
// Text of the recorded program must be clean UTF-8 (render/utf8.h). Lines end without trailing blanks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyzer/cli/text/text_style.h"

namespace heapprof::cli {

enum class TextColour { kBold, kDim, kFunction, kWarning, kMore, kLess };

class TextPage {
 public:
  explicit TextPage(const TextStyle& style) : style_(style) {}

  TextPage& line(const std::string& text = {});
  /// An empty line, then `text` in bold.
  TextPage& heading(const std::string& text);
  /// A label, a figure in bold, and what explains it.
  TextPage& row(const std::string& label, const std::string& value, const std::string& more = {});
  /// A table. The last column is aligned left and clipped at the end of the line, the others are aligned right. If
  /// the width does not suffice, columns are left out, beginning with the last but one.
  TextPage& table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows);
  /// Wrapped text, indented by two columns.
  TextPage& paragraph(const std::string& text);
  /// Wrapped text with a dash before it.
  TextPage& list_item(const std::string& text);

  /// "LABEL: COMMAND". If that exceeds the width, the command is below its label, in lines that a shell reads as one.
  TextPage& command(const std::string& label, const std::string& command);

  /// A row of small bars, one per value. The highest bar is the largest value.
  std::string sparkline(const std::uint64_t* values, std::size_t count) const;
  /// A bar of `value / of * columns` characters.
  std::string bar(std::uint64_t value, std::uint64_t of, std::size_t columns) const;

  /// `text` in a colour, or unchanged where the style has no colours.
  std::string paint(TextColour colour, const std::string& text) const;
  std::string bold(const std::string& text) const { return paint(TextColour::kBold, text); }

  /// `text` without its end, or without its beginning, where it is longer than `width`; an ellipsis marks the cut.
  std::string clip(const std::string& text, std::size_t width) const;
  std::string clip_front(const std::string& text, std::size_t width) const;

  const TextStyle& style() const noexcept { return style_; }
  bool contains(const std::string& text) const { return out_.find(text) != std::string::npos; }
  /// Everything printed so far.
  std::string text() const;
  /// The same, line by line.
  std::vector<std::string> lines() const;

 private:
  TextPage& wrapped(std::string indent, const std::string& text);
  std::string plain(const std::string& text) const { return plain_text(text, style_.unicode); }

  TextStyle style_;
  std::string out_;
};

}  // namespace heapprof::cli
