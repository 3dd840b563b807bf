#include "analyzer/cli/text/text_columns.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "analyzer/render/short_names.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using Kind = Column::Kind;

constexpr std::size_t kGap = 2;

/// Begins a location that is the name of a caller.
constexpr std::string_view kCaller = "from ";

/// Names get at least so many columns, if they need them, before figures are left out.
constexpr std::size_t kMinNameWidth = 24;
constexpr std::size_t kMinLocationWidth = 16;
constexpr std::size_t kMinTextWidth = 32;  // of the last column

/// Narrower pages say which columns they lack.
constexpr std::size_t kExplainedWidth = 60;

/// Between a function and its caller, in a cell that is a stack.
constexpr std::string_view kBetween = " < ";

std::vector<std::string> frames_in(const std::string& text) {
  std::vector<std::string> frames;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(kBetween, begin);
    frames.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return frames;
    begin = end + kBetween.size();
  }
}

std::string joined(const std::vector<std::string>& frames) {
  std::string text;
  for (const std::string& frame : frames) text += (text.empty() ? "" : std::string(kBetween)) + frame;
  return text;
}

/// A stack in at most `width` columns. First, frames at its end are left out, but not the one after the last
/// ellipsis, by which the stack differs from others. Then names lose their outer scopes and their ends.
std::string fit_stack(const std::string& text, std::size_t width) {
  constexpr std::size_t kMinName = 4;
  std::vector<std::string> frames = frames_in(text);
  std::size_t needed = std::min<std::size_t>(2, frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i)
    if (frames[i] == "…") needed = std::min(i + 2, frames.size());
  if (render::length_utf8(text) > width) {
    const std::size_t more = kBetween.size() + 1;  // an ellipsis in place of those that are left out
    while (frames.size() > needed && render::length_utf8(joined(frames)) + more > width) frames.pop_back();
    if (render::length_utf8(joined(frames)) + more <= width) frames.emplace_back("…");
  }
  const auto length = [](const std::string& frame) { return render::length_utf8(frame); };
  // A place in parentheses behind a name stays.
  const auto place_in = [](const std::string& frame) {
    const std::size_t at = frame.ends_with(')') ? frame.rfind(" (") : std::string::npos;
    return std::min(at, frame.size());
  };
  const auto shorter = [&](const std::string& frame) {
    const std::string name = frame.substr(0, place_in(frame));
    return render::fit_name(name, std::max<std::size_t>(length(name), 1) - 1) + frame.substr(name.size());
  };
  // The longest name that has an outer scope loses it; then the longest one its end.
  for (const bool clip : {false, true}) {
    while (length(joined(frames)) > width) {
      std::string* longest = nullptr;
      for (std::string& frame : frames)
        if ((longest == nullptr || length(frame) > length(*longest)) &&
            length(frame.substr(0, place_in(frame))) > kMinName &&
            (clip || !shorter(frame).substr(0, place_in(shorter(frame))).ends_with("…")))
          longest = &frame;
      if (longest == nullptr) break;
      *longest = shorter(*longest);
    }
  }
  return joined(frames);
}

class Layout {
 public:
  Layout(const TextPage& page, const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows)
      : page_(page), columns_(columns), widths_(columns.size(), 0), shown_(columns.size(), false) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      for (const std::vector<Cell>& cells : rows) {
        widths_[i] = std::max(widths_[i], width_of(cells[i].text));
        shown_[i] = shown_[i] || !cells[i].text.empty();
      }
      widths_[i] = std::max(widths_[i], width_of(columns[i].header));
      if (columns[i].kind == Kind::kLocation) widths_[i] = std::min(widths_[i], page.style().width * 2 / 5);
      if (columns[i].kind == Kind::kWhole) widths_[i] = std::min(widths_[i], kMinNameWidth);
    }
    drop_columns();
    const std::size_t all = used();
    const std::size_t width = page.style().width;
    if (all <= width) return;
    // The locations give way before the names.
    shrink(Kind::kLocation, all - width, kMinLocationWidth);
    if (used() > width) shrink(Kind::kFunction, used() - width, kMinNameWidth);
    if (used() > width) shrink(Kind::kLocation, used() - width, 8);
    if (used() > width) shrink(Kind::kFunction, used() - width, 8);
    if (used() > width) leave_out_locations(width);
    // What is left gives way at the end of the line.
    if (used() > width && columns.back().kind == Kind::kText)
      widths_.back() -= std::min(widths_.back(), used() - width);
  }

  std::string line(const std::vector<Cell>& cells) const {
    std::string text;
    std::size_t missing = 0;  // blanks after a left-aligned column, which are not printed at the end of a line
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!shown_[i]) continue;
      const std::string fitted = fit(cells[i].text, i);
      const std::size_t blanks = widths_[i] - std::min(widths_[i], width_of(fitted));
      const bool figure = columns_[i].kind == Kind::kFigure;
      text.append(missing + kGap + (figure ? blanks : 0), ' ');
      text += cells[i].colour ? page_.paint(*cells[i].colour, fitted) : fitted;
      missing = figure ? 0 : blanks;
    }
    return text;
  }

  const std::vector<std::string>& dropped() const noexcept { return dropped_; }

 private:
  std::size_t width_of(const std::string& text) const {
    return render::length_utf8(plain_text(text, page_.style().unicode));
  }

  std::size_t used() const {
    std::size_t used = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (shown_[i]) used += widths_[i] + kGap;
    return used;
  }

  /// What a column needs before figures are left out for it.
  std::size_t min_width(std::size_t column) const {
    switch (columns_[column].kind) {
      case Kind::kFunction: return std::min(widths_[column], kMinNameWidth);
      case Kind::kLocation: return std::min(widths_[column], kMinLocationWidth);
      case Kind::kText:
        if (column + 1 == columns_.size()) return std::min(widths_[column], kMinTextWidth);
        break;
      case Kind::kWhole:
      case Kind::kFigure: break;
    }
    return widths_[column];
  }

  void drop_columns() {
    for (;;) {
      std::size_t needed = 0;
      std::size_t first = columns_.size();
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        if (!shown_[i]) continue;
        needed += kGap + min_width(i);
        if (columns_[i].drop != 0 && (first == columns_.size() || columns_[i].drop > columns_[first].drop)) first = i;
      }
      if (needed <= page_.style().width || first == columns_.size()) return;
      shown_[first] = false;
      dropped_.insert(dropped_.begin(), columns_[first].header);  // the last ones are dropped first
    }
  }

  /// A name says more than a place that is cut to a few letters.
  void leave_out_locations(std::size_t width) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!shown_[i] || columns_[i].kind != Kind::kLocation) continue;
      shown_[i] = false;
      dropped_.push_back(columns_[i].header);
    }
    const std::size_t all = used();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (shown_[i] && columns_[i].kind == Kind::kFunction && all < width) widths_[i] += width - all;
  }

  void shrink(Kind kind, std::size_t by, std::size_t min_width) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!shown_[i] || columns_[i].kind != kind) continue;
      const std::size_t given = std::min(by, widths_[i] - std::min(widths_[i], min_width));
      widths_[i] -= given;
      by -= given;
    }
  }

  std::string fit(const std::string& text, std::size_t column) const {
    const std::size_t width = widths_[column];
    if (width_of(text) <= width) return text;
    switch (columns_[column].kind) {
      case Kind::kFunction:
        if (text.find(kBetween) != std::string::npos)
          return page_.clip(fit_stack(text, page_.style().unicode ? width : width - 2), width);
        // In ASCII an ellipsis has three characters.
        return page_.clip(render::fit_name(text, page_.style().unicode ? width : width - 2), width);
      case Kind::kLocation:
        if (!text.starts_with(kCaller) || width <= kCaller.size()) return page_.clip_front(text, width);
        return page_.clip(
            std::string(kCaller) + render::fit_name(text.substr(kCaller.size()), width - kCaller.size()), width);
      case Kind::kFigure:
      case Kind::kText: return page_.clip(text, width);
      case Kind::kWhole: break;
    }
    return text;
  }

  const TextPage& page_;
  const std::vector<Column>& columns_;
  std::vector<std::size_t> widths_;
  std::vector<bool> shown_;
  std::vector<std::string> dropped_;
};

}  // namespace

namespace {

/// With full names, the position of the column that is to be the last one; else the number of columns.
std::size_t column_of_names(const TextPage& page, const std::vector<Column>& columns) {
  const auto is_function = [](const Column& column) { return column.kind == Kind::kFunction; };
  const auto at = page.style().full_names ? std::find_if(columns.begin(), columns.end(), is_function) : columns.end();
  return static_cast<std::size_t>(at - columns.begin());
}

template <typename T>
void make_last(std::vector<T>& elements, std::size_t position) {
  const auto at = elements.begin() + static_cast<std::ptrdiff_t>(position);
  std::rotate(at, at + 1, elements.end());
}

}  // namespace

std::vector<std::string> write_columns(TextPage& page, const std::vector<Column>& columns,
                                       const std::vector<std::vector<Cell>>& rows) {
  if (const std::size_t names = column_of_names(page, columns); names != columns.size()) {
    std::vector<Column> with_names_last = columns;
    with_names_last[names].kind = Kind::kWhole;
    make_last(with_names_last, names);
    std::vector<std::vector<Cell>> cells = rows;
    for (std::vector<Cell>& row : cells) make_last(row, names);
    return write_columns(page, with_names_last, cells);
  }
  const Layout layout(page, columns, rows);
  std::vector<Cell> headers;
  for (const Column& column : columns) headers.push_back({column.header, TextColour::kDim});
  page.line(layout.line(headers));
  for (const std::vector<Cell>& cells : rows) page.line(layout.line(cells));
  if (!layout.dropped().empty() && page.style().width < kExplainedWidth) {
    std::string names;
    for (const std::string& name : layout.dropped()) names += (names.empty() ? "" : ", ") + name;
    page.paragraph("(too narrow for: " + names + ")");
  }
  return layout.dropped();
}

void write_rows(TextPage& page, const std::vector<Column>& columns, const std::vector<std::vector<Cell>>& rows) {
  const Layout layout(page, columns, rows);
  for (const std::vector<Cell>& cells : rows) page.line(layout.line(cells));
}

}  // namespace heapprof::cli
