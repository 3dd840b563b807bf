#include "analyzer/cli/text/text_page.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

constexpr std::size_t kFigureLabelWidth = 11;
constexpr std::size_t kValueWidth = 10;

/// On narrower pages sentences that do not fit are wrapped, with at most kMaxIndent of their blanks. Tables fit.
constexpr std::size_t kWrappedWidth = 60;
constexpr std::size_t kMaxIndent = 6;

/// Parameters of the escape sequence that selects a colour (ECMA-48, SGR).
const char* colour_code(TextColour colour) {
  switch (colour) {
    case TextColour::kBold: return "1";
    case TextColour::kDim: return "2";
    case TextColour::kFunction: return "36";
    case TextColour::kWarning: return "33";
    case TextColour::kMore: return "31";
    case TextColour::kLess: return "32";
  }
  return "0";
}

/// The words of a command, with their quotes.
std::vector<std::string_view> shell_words(std::string_view command) {
  std::vector<std::string_view> words;
  bool quoted = false;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= command.size(); ++at) {
    if (at == command.size() || (command[at] == ' ' && !quoted)) {
      if (at != begin) words.push_back(command.substr(begin, at - begin));
      begin = at + 1;
    } else if (command[at] == '\'') quoted = !quoted;
    else if (command[at] == '\\' && !quoted) ++at;
  }
  return words;
}

}  // namespace

std::string TextPage::text() const { return plain(out_); }

std::vector<std::string> TextPage::lines() const {
  const std::string text = this->text();
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

std::string TextPage::clip(const std::string& text, std::size_t width) const {
  const std::string printed = plain(text);
  if (style_.unicode || render::length_utf8(printed) <= width || width < 4) return render::clip_utf8(printed, width);
  std::string cut = render::clip_utf8(printed, width - 2);  // ends in an ellipsis
  cut.resize(cut.size() - std::strlen("…"));
  return cut + "...";
}

std::string TextPage::clip_front(const std::string& text, std::size_t width) const {
  const std::size_t length = render::length_utf8(text);
  if (length <= width) return text;
  const std::string mark = style_.unicode ? "…" : "...";
  const std::size_t room = width - std::min(width, render::length_utf8(mark));
  std::size_t at = 0;
  for (std::size_t skip = length - room; skip > 0 && at < text.size(); --skip) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  }
  return mark + text.substr(at);
}

std::string TextPage::sparkline(const std::uint64_t* values, std::size_t count) const {
  static constexpr const char* kUnicode[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* kAscii[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  const std::uint64_t largest = count == 0 ? 0 : *std::max_element(values, values + count);
  std::string line;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = largest == 0 ? 0 : static_cast<double>(values[i]) / static_cast<double>(largest);
    const auto level = std::min<std::size_t>(static_cast<std::size_t>(share * 8), 7);
    line += style_.unicode ? kUnicode[level] : kAscii[level];
  }
  return line;
}

std::string TextPage::bar(std::uint64_t value, std::uint64_t of, std::size_t columns) const {
  if (of == 0 || value == 0) return {};
  const double length = static_cast<double>(value) / static_cast<double>(of) * static_cast<double>(columns);
  const auto rounded = std::max<std::size_t>(1, std::min(columns, static_cast<std::size_t>(std::llround(length))));
  std::string bar;
  for (std::size_t i = 0; i < rounded; ++i) bar += style_.unicode ? "█" : "#";
  return bar;
}

std::string TextPage::paint(TextColour colour, const std::string& text) const {
  if (!style_.colour || text.empty()) return text;
  return std::string("\x1b[") + colour_code(colour) + "m" + text + "\x1b[0m";
}

TextPage& TextPage::line(const std::string& text) {
  if (const std::size_t end = text.find('\n'); end != std::string::npos)
    return line(text.substr(0, end)).line(text.substr(end + 1));
  std::size_t end = text.size();
  while (end > 0 && text[end - 1] == ' ') --end;
  if (style_.width < kWrappedWidth && !style_.full_names && text.find('\x1b') == std::string::npos &&
      render::length_utf8(plain(text.substr(0, end))) > style_.width) {
    const std::size_t indent = std::min({text.find_first_not_of(' '), text.size(), kMaxIndent});
    for (const std::string& piece : render::wrapped(text.substr(indent, end - indent), style_.width - indent))
      out_ += std::string(indent, ' ') + piece + '\n';
    return *this;
  }
  out_.append(text, 0, end);
  out_ += '\n';
  return *this;
}

TextPage& TextPage::heading(const std::string& text) {
  line();
  if (style_.width >= kWrappedWidth) return line(bold(text));
  for (const std::string& piece : render::wrapped(text, style_.width)) line(bold(piece));
  return *this;
}

TextPage& TextPage::row(const std::string& label, const std::string& value, const std::string& more) {
  const std::string left = "  " + render::pad_right(label, kFigureLabelWidth);
  const std::size_t used = left.size() + kValueWidth + 2;
  if (style_.width < kWrappedWidth && used + render::length_utf8(plain(more)) > style_.width) {
    line(left + bold(render::pad_left(value, kValueWidth)));
    return wrapped("    ", more);
  }
  return line(left + bold(render::pad_left(value, kValueWidth)) +
              (more.empty() ? "" : "  " + clip(more, style_.width - used)));
}

TextPage& TextPage::table(const std::vector<std::string>& headers,
                          const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const std::string& header : headers) widths.push_back(render::length_utf8(header));
  for (const std::vector<std::string>& cells : rows)
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], render::length_utf8(plain(cells[i])));
  constexpr std::size_t kMinLastWidth = 16;
  std::size_t shown = widths.empty() ? 0 : widths.size() - 1;
  std::size_t used = 2;
  for (std::size_t i = 0; i < shown; ++i) used += widths[i] + 2;
  while (shown > 1 && used + std::min(kMinLastWidth, widths.back()) > style_.width) used -= widths[--shown] + 2;
  const auto print = [&](const std::vector<std::string>& cells, bool head) {
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) text += "  " + render::pad_left(plain(cells[i]), widths[i]);
    text += "  " + clip(cells.back(), style_.width - std::min(style_.width, used));
    line(head ? paint(TextColour::kDim, text) : text);
  };
  print(headers, true);
  for (const std::vector<std::string>& cells : rows) print(cells, false);
  return *this;
}

TextPage& TextPage::paragraph(const std::string& text) { return wrapped("  ", text); }

TextPage& TextPage::list_item(const std::string& text) { return wrapped("  - ", text); }

TextPage& TextPage::command(const std::string& label, const std::string& command) {
  if (render::length_utf8(label) + 2 + render::length_utf8(command) <= style_.width)
    return line(label + ": " + command);
  line(label + ":");
  constexpr std::string_view kContinued = " \\";
  std::string text = " ";
  for (const std::string_view word : shell_words(command)) {
    if (text.size() > kMaxIndent &&
        render::length_utf8(text) + 1 + render::length_utf8(word) + kContinued.size() > style_.width) {
      out_ += text + std::string(kContinued) + '\n';
      text.assign(kMaxIndent - 1, ' ');
    }
    text += ' ' + std::string(word);
  }
  out_ += text + '\n';  // a line that is too long for the page is not broken within a word
  return *this;
}

TextPage& TextPage::wrapped(std::string indent, const std::string& text) {
  for (const std::string& piece : render::wrapped(text, style_.width - indent.size())) {
    line(indent + piece);
    indent.assign(indent.size(), ' ');
  }
  return *this;
}

}  // namespace heapprof::cli
