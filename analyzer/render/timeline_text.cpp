// The plot for a terminal. The area of live bytes consists of block elements, in steps of an eighth of a line; the
// line of resident memory of braille dots, two columns and four lines per character. The ASCII plot has one character
// for each, in steps of a line.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/render/axis.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/timeline.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

constexpr const char* kAreaColour = "\x1b[36m";
constexpr const char* kResidentColour = "\x1b[33m";
constexpr const char* kFaint = "\x1b[2m";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";

/// Above this multiple of the peak, resident memory is printed and not drawn: it would flatten the heap.
constexpr std::uint64_t kMaxDrawnResidentShare = 4;
constexpr unsigned kMaxMarks = 8;

/// One character of the plot with its colour.
struct Cell {
  std::string_view text = " ";
  const char* colour = nullptr;
};

struct Characters {
  std::array<std::string_view, 9> area;  // by eighths
  std::string_view idle_rule, tick_row, plain_row, corner, rule, tick_column, peak, mark, pause;
};

constexpr Characters kUnicode = {
    {" ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"},
    "\u254c",
    "\u2524",
    "\u2502",
    "\u2514",
    "\u2500",
    "\u252c",
    "\u25be",
    "\u2191",
    "\u2016"};
constexpr Characters kAscii = {
    {" ", " ", " ", " ", "#", "#", "#", "#", "#"}, ".", "+", "|", "+", "-", "+", "v", "^", "="};

struct Columns {
  std::vector<std::uint64_t> live;
  std::vector<bool> idle;
  std::vector<std::uint64_t> resident;  // two to a column; 0: none
};

class Plot {
 public:
  Plot(const Timeline& timeline, const PlotOptions& options)
      : timeline_(timeline), options_(options), characters_(options.unicode ? kUnicode : kAscii),
        peak_(peak_of(timeline)), start_(timeline.start_ns), end_(std::max(start_ + 1, timeline.duration_ns)),
        height_(std::max(options.height, 4u)) {
    for (const std::uint64_t time : timeline.time_ns) end_ = std::max(end_, time);
    for (const auto& sample : timeline.resident) {
      end_ = std::max(end_, sample.time_ns);
      max_resident_ = std::max(max_resident_, sample.bytes);
    }
    draw_resident_ = max_resident_ > 0 && max_resident_ / kMaxDrawnResidentShare <= peak_.bytes;
    axis_ = byte_axis(std::max(peak_.bytes, draw_resident_ ? max_resident_ : 0), std::max(2u, height_ / 3));
    for (const std::uint64_t tick : axis_.ticks) gutter_ = std::max(gutter_, byte_tick_label(tick).size());
    gutter_ += 1;
    const unsigned width = std::max(options.width, 40u);
    width_ = width - static_cast<unsigned>(gutter_) - 1;
  }

  void write(const TextSink& out) {
    const std::size_t room = gutter_ + 1 + width_;
    text_ += coloured(clip(clean_utf8(timeline_.title), room), kBold) + "\n";
    for (const auto& [label, value] : timeline_.context)
      text_ += clip(clean_utf8(label) + (label.empty() ? "" : ": ") + clean_utf8(value), room) + "\n";
    end_line();
    if (timeline_.time_ns.empty()) {
      text_ += "No samples: nothing was recorded.\n";
    } else {
      const Columns columns = sample();
      write_peak();
      write_rows(columns);
      write_time_axis(columns);
      write_marks();
      write_legend(columns);
      write_sites();
    }
    out(text_);
  }

 private:
  std::string coloured(std::string_view text, const char* colour) const {
    if (!options_.colour || colour == nullptr) return std::string(text);
    return colour + std::string(text) + kPlain;
  }

  /// In an ASCII plot, names are ASCII too.
  std::string ascii(std::string text) const {
    if (options_.unicode) return text;
    std::string out;
    for (std::size_t at; (at = text.find("\xe2\x80\xa6")) != std::string::npos;) text.replace(at, 3, "..");
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x80) out += c;
      else if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) out += '?';
    }
    return out;
  }

  /// Ends the current line, without its trailing blanks.
  void end_line() {
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }

  unsigned column_of(std::uint64_t time, unsigned columns) const {
    const auto since = static_cast<double>(time - std::min(time, start_));
    const double place = since / static_cast<double>(end_ - start_) * columns;
    return std::min(columns - 1, static_cast<unsigned>(place));
  }

  Columns sample() const {
    Columns columns{std::vector<std::uint64_t>(width_), std::vector<bool>(width_),
                    std::vector<std::uint64_t>(width_ * 2)};
    std::vector<bool> seen(width_);
    std::vector<std::uint64_t> last(width_);  // value at the end of each column
    for (std::size_t i = 0; i < timeline_.time_ns.size(); ++i) {
      const unsigned column = column_of(timeline_.time_ns[i], width_);
      const std::uint64_t highest =
          timeline_.highest_bytes.empty() ? timeline_.live_bytes[i] : timeline_.highest_bytes[i];
      columns.live[column] = std::max(columns.live[column], highest);
      last[column] = timeline_.live_bytes[i];
      seen[column] = true;
    }
    std::uint64_t held = 0;
    for (unsigned i = 0; i < width_; ++i) {
      if (seen[i]) held = last[i];
      else columns.live[i] = held;
    }
    auto& at_peak = columns.live[column_of(peak_.time_ns, width_)];
    at_peak = std::max(at_peak, peak_.bytes);
    for (const auto& span : timeline_.idle)
      for_each_inside(span, width_, [&](unsigned column) { columns.idle[column] = true; });
    if (!draw_resident_) return columns;
    std::vector<bool> resident_seen(width_ * 2);
    for (const auto& sample : timeline_.resident) {
      const unsigned column = column_of(sample.time_ns, width_ * 2);
      columns.resident[column] = std::max(columns.resident[column], sample.bytes);
      resident_seen[column] = true;
    }
    std::vector<bool> unknown(width_ * 2);
    for (const auto& span : timeline_.unsampled)
      for_each_inside(span, width_ * 2, [&](unsigned column) { unknown[column] = true; });
    for (unsigned i = 1; i < width_ * 2; ++i)
      if (!resident_seen[i] && !unknown[i]) columns.resident[i] = columns.resident[i - 1];
    return columns;
  }

  /// Calls visit(column) for each of `columns` columns that is completely within `span`.
  template <typename Visit>
  void for_each_inside(const Timeline::Span& span, unsigned columns, Visit&& visit) const {
    const double width = static_cast<double>(end_ - start_) / columns;
    for (unsigned i = column_of(span.from_ns, columns); i <= column_of(span.to_ns, columns); ++i) {
      const double begin = static_cast<double>(start_) + i * width;
      if (begin >= static_cast<double>(span.from_ns) && begin + width <= static_cast<double>(span.to_ns)) visit(i);
    }
  }

  void write_peak() {
    const unsigned column = column_of(peak_.time_ns, width_);
    const std::string label = ascii(peak_label(timeline_));
    const bool left = column + 3 + length_utf8(label) > width_ && column > length_utf8(label);
    text_.append(gutter_ + 1 + (left ? column - length_utf8(label) - 1 : column), ' ');
    if (left) text_ += label + " ";
    text_ += characters_.peak;
    if (!left) text_ += " " + label;
    end_line();
  }

  void write_rows(const Columns& columns) {
    std::vector<std::vector<Cell>> rows(height_, std::vector<Cell>(width_));  // the first is the lowest
    const double scale = static_cast<double>(height_) / static_cast<double>(axis_.top);
    for (unsigned x = 0; x < width_; ++x) {
      const double lines = static_cast<double>(columns.live[x]) * scale;
      auto eighths = static_cast<unsigned>(std::lround(lines * 8));
      if (columns.live[x] > 0) eighths = std::max(eighths, options_.unicode ? 1u : 4u);
      for (unsigned y = 0; y < height_ && eighths > y * 8; ++y) {
        const unsigned part = std::min(8u, eighths - y * 8);
        rows[y][x] = {characters_.area[part], kAreaColour};
      }
    }
    std::vector<std::string> braille;
    braille.reserve(std::size_t{width_} * height_);  // cells keep views of these
    draw_resident(columns, scale, rows, braille);

    std::vector<std::string> labels(height_);
    for (const std::uint64_t tick : axis_.ticks) {
      const auto line = static_cast<unsigned>(std::lround(static_cast<double>(tick) * scale));
      if (tick > 0 && line >= 1) labels[line - 1] = byte_tick_label(tick);
    }
    for (unsigned y = height_; y-- > 0;) {
      std::string label = labels[y];
      label.insert(0, gutter_ - 1 - label.size(), ' ');
      text_ += label + " ";
      text_ += coloured(labels[y].empty() ? characters_.plain_row : characters_.tick_row, kFaint);
      append_cells(rows[y]);
    }
  }

  void draw_resident(const Columns& columns, double scale, std::vector<std::vector<Cell>>& rows,
                     std::vector<std::string>& braille) const {
    if (!draw_resident_) return;
    constexpr unsigned kLeft[4] = {0x40, 0x04, 0x02, 0x01};  // dots from the lowest up
    constexpr unsigned kRight[4] = {0x80, 0x20, 0x10, 0x08};
    for (unsigned x = 0; x < width_; ++x) {
      std::vector<unsigned> dots(height_);
      for (unsigned half = 0; half < 2; ++half) {
        const std::uint64_t bytes = columns.resident[x * 2 + half];
        if (bytes == 0) continue;
        const auto level = std::min(height_ * 4 - 1, static_cast<unsigned>(static_cast<double>(bytes) * scale * 4));
        dots[level / 4] |= (half == 0 ? kLeft : kRight)[level % 4];
      }
      for (unsigned y = 0; y < height_; ++y) {
        // A character shows the area or the line; the area has precedence.
        if (dots[y] == 0 || rows[y][x].text != " ") continue;
        if (!options_.unicode) {
          rows[y][x] = {".", kResidentColour};
          continue;
        }
        const unsigned code = 0x2800 + dots[y];
        std::string character(3, '\0');
        character[0] = static_cast<char>(0xe0 | code >> 12);
        character[1] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
        character[2] = static_cast<char>(0x80 | (code & 0x3f));
        braille.push_back(character);
        rows[y][x] = {braille.back(), kResidentColour};
      }
    }
  }

  void append_cells(const std::vector<Cell>& cells) {
    std::size_t end = cells.size();
    while (end > 0 && cells[end - 1].text == " ") --end;
    const char* colour = nullptr;
    for (std::size_t i = 0; i < end; ++i) {
      if (options_.colour && cells[i].colour != colour) {
        text_ +=
            cells[i].colour == nullptr ? kPlain : (colour == nullptr ? "" : kPlain) + std::string(cells[i].colour);
        colour = cells[i].colour;
      }
      text_ += cells[i].text;
    }
    if (colour != nullptr) text_ += kPlain;
    text_ += '\n';
  }

  void write_time_axis(const Columns& columns) {
    const Axis times = time_axis(end_, std::max(2u, width_ / 10), start_);
    std::vector<Cell> rule(width_, Cell{characters_.rule, nullptr});
    for (unsigned i = 0; i < width_; ++i)
      if (columns.idle[i]) rule[i].text = characters_.idle_rule;
    std::string labels;
    std::size_t free_from = 0;
    for (const std::uint64_t tick : times.ticks) {
      const unsigned column = column_of(tick, width_);
      const std::string label = ascii(time_tick_label(tick, times));
      const std::size_t at = gutter_ + 1 + column;  // labels count bytes: the micro sign shifts what follows by one
      rule[column].text = characters_.tick_column;
      // A label begins at its tick, or further left at the end of the line; it is omitted where it would overlap.
      const std::size_t place = std::min(at, gutter_ + 1 + width_ - length_utf8(label));
      if (place < free_from) continue;
      labels.resize(place, ' ');
      labels += label;
      free_from = place + label.size() + 1;
    }
    text_.append(gutter_ - 2, ' ');
    text_ += "0 " + std::string(characters_.corner);
    for (const Cell& cell : rule) text_ += cell.text;
    text_ += '\n';
    text_ += labels;
    end_line();
  }

  void write_marks() {
    if (timeline_.marks.empty() && timeline_.pauses.empty()) return;
    std::vector<Cell> row(width_);
    for (const auto& pause : timeline_.pauses)
      for (unsigned i = column_of(pause.from_ns, width_); i <= column_of(pause.to_ns, width_); ++i)
        row[i].text = characters_.pause;
    for (const auto& mark : timeline_.marks) row[column_of(mark.time_ns, width_)].text = characters_.mark;
    text_.append(gutter_ + 1, ' ');
    append_cells(row);
    for (std::size_t i = 0; i < timeline_.marks.size() && i < kMaxMarks; ++i) {
      const auto& mark = timeline_.marks[i];
      text_.append(gutter_ + 1, ' ').append(characters_.mark).append(" ");
      text_ += ascii(human_time(mark.time_ns)) + "  " + ascii(clip_utf8(clean_utf8(mark.text), width_ - 14)) + "\n";
    }
    if (timeline_.marks.size() > kMaxMarks) {
      text_.append(gutter_ + 3, ' ');
      text_ += "and " + std::to_string(timeline_.marks.size() - kMaxMarks) + " more marks\n";
    }
    if (!timeline_.pauses.empty()) {
      text_.append(gutter_ + 1, ' ')
          .append(characters_.pause)
          .append(" recording paused: live bytes are a lower bound\n");
    }
  }

  void write_legend(const Columns& columns) {
    text_ += '\n';
    std::size_t used = 0;
    const auto item = [&](std::string_view sample, const char* colour, const std::string& words) {
      const std::size_t length = 3 + length_utf8(words) + 2;
      if (used > 0 && used + length > width_) {
        text_ += '\n';
        used = 0;
      }
      text_.append(used == 0 ? gutter_ + 1 : 3, ' ');
      text_ += coloured(sample, colour) + " " + words;
      used += length;
    };
    item(characters_.area[8], kAreaColour, timeline_.live);
    if (std::find(columns.idle.begin(), columns.idle.end(), true) != columns.idle.end())
      item(characters_.idle_rule, nullptr, "idle (no events)");
    if (max_resident_ > 0) {
      item(options_.unicode ? "\u2812" : ".", kResidentColour,
           "resident (RSS), max " + human_bytes(max_resident_) + (draw_resident_ ? "" : ", above this scale"));
    }
    text_ += '\n';
  }

  void write_sites() {
    if (timeline_.sites.empty() || peak_.bytes == 0 || options_.sites == 0) return;
    text_ += "\n" + (timeline_.peak_is_moment ? ascii(peak_moment(timeline_)) : "At the peak") + ", " +
             human_bytes(peak_.bytes) + ":\n";
    const unsigned room = static_cast<unsigned>(gutter_) + 1 + width_;
    std::uint64_t shown = 0;
    const auto line = [&](std::uint64_t bytes, const std::string& label, const std::string& detail) {
      const std::string size = human_bytes(bytes);
      const std::string share = percent(bytes, peak_.bytes);
      text_.append(size.size() < 10 ? 10 - size.size() : 0, ' ').append(size);
      text_.append(share.size() < 8 ? 8 - share.size() : 0, ' ').append(share).append("  ");
      const std::size_t left = room > 22 ? room - 22 : 20;
      const std::string name = options_.full_names ? label : clip(label, left);
      text_ += name;
      const std::size_t used = length_utf8(name) + 2;
      if (!detail.empty() && used + 8 < left)
        text_ += "  " + coloured(clip(fit_path(detail, left - used), left - used), kFaint);
      text_ += '\n';
    };
    for (std::size_t i = 0; i < timeline_.sites.size() && i < options_.sites; ++i) {
      const auto& site = timeline_.sites[i];
      if (site.peak_bytes == 0) continue;  // it has live bytes at other times
      shown += site.peak_bytes;
      const std::string label = clean_utf8(site.label);
      line(site.peak_bytes, options_.full_names ? label : without_arguments(label), clean_utf8(site.detail));
    }
    if (shown < peak_.bytes) line(peak_.bytes - shown, "everything else", "");
  }

  std::string clip(const std::string& text, std::size_t length) const {
    if (options_.unicode) return clip_utf8(text, length);
    std::string plain = ascii(text);
    if (plain.size() > length) plain.replace(length - 2, std::string::npos, "..");
    return plain;
  }

  const Timeline& timeline_;
  const PlotOptions& options_;
  const Characters& characters_;
  const Timeline::Peak peak_;
  std::uint64_t start_;
  std::uint64_t end_;
  std::uint64_t max_resident_ = 0;
  bool draw_resident_ = false;
  const unsigned height_;
  unsigned width_ = 0;      // of the plot itself
  std::size_t gutter_ = 2;  // before the axis
  Axis axis_;
  std::string text_;
};

}  // namespace

void write_timeline_text(const Timeline& timeline, const PlotOptions& options, const TextSink& out) {
  Plot(timeline, options).write(out);
}

}  // namespace heapprof::render
