#include "analyzer/cli/top/top_text.h"

#include <algorithm>
#include <cmath>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using render::exact_number;
using render::human_bytes;
using views::By;

/// Readings in the sparkline of a row; that of the total has all that are kept.
constexpr std::size_t kRowHistory = 12;

std::uint64_t magnitude(std::int64_t value) noexcept {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

const char* sign_of(std::int64_t value) noexcept { return value < 0 ? "-" : value > 0 ? "+" : ""; }

std::string title_of(const TopTable& table) {
  std::string text = table.program.empty() ? "(program unknown)" : render::clean_utf8(base_name(table.program));
  text += ", pid " + std::to_string(table.pid) + ", ";
  if (table.state != "ended") return text + table.state + ", " + render::human_time(table.at_ns);
  return text + render::clean_utf8(ending_after(table.integrity, table.compacted, table.at_ns));
}

std::uint64_t rounded(double value) noexcept { return static_cast<std::uint64_t>(std::llround(value)); }

std::string totals_of(const TopTable& table) {
  const TopFigures& total = table.total;
  std::string text = human_bytes(total.sums.live_bytes) + " live in " + render::block_count(total.sums.live_blocks);
  if (table.has_growth)
    text += ", " + std::string(sign_of(total.growth_bytes)) + human_bytes(magnitude(total.growth_bytes)) + " since " +
            table.since;
  text += "; " + human_bytes(rounded(total.bytes_per_s)) + "/s allocated";
  if (table.rss_bytes != 0) text += "; " + human_bytes(table.rss_bytes) + " resident";
  return text;
}

std::vector<Column> columns_of(const TopTable& table, const ViewOptions& view) {
  // The column by which rows are sorted stays.
  const auto drop = [&](TopSort sort, int otherwise) { return table.sort == sort ? 0 : otherwise; };
  std::vector<Column> columns = {{"live", Column::Kind::kFigure, drop(TopSort::kLive, 1)},
                                 {"blocks", Column::Kind::kFigure, drop(TopSort::kBlocks, 4)},
                                 {"growth", Column::Kind::kFigure, drop(TopSort::kGrowth, 2)},
                                 {"allocated/s", Column::Kind::kFigure, drop(TopSort::kRate, 3)},
                                 {"over time", Column::Kind::kText, 5}};
  const Column name{heading_of(table.by), view.full_names ? Column::Kind::kWhole : Column::Kind::kFunction};
  const Column location{"location", Column::Kind::kLocation};
  if (view.full_names) columns.insert(columns.end(), {location, name});
  else columns.insert(columns.end(), {name, location});
  return columns;
}

/// The sizes of a column in one unit.
render::ByteColumn sizes_of(const TopTable& table, std::uint64_t (*value)(const TopFigures&)) {
  std::uint64_t largest = 0;
  for (const TopRow& row : table.rows) largest = std::max(largest, value(row.figures));
  return render::ByteColumn(largest);
}

std::vector<std::vector<Cell>> cells_of(const TopTable& table, const TextPage& page, const ViewOptions& view) {
  const auto live = sizes_of(table, [](const TopFigures& figures) { return figures.sums.live_bytes; });
  const auto growth = sizes_of(table, [](const TopFigures& figures) { return magnitude(figures.growth_bytes); });
  const auto rate = sizes_of(table, [](const TopFigures& figures) { return rounded(figures.bytes_per_s); });
  const auto bold = [&](TopSort sort) {
    return table.sort == sort ? std::optional(TextColour::kBold) : std::nullopt;
  };
  std::vector<std::vector<Cell>> rows;
  for (const TopRow& row : table.rows) {
    const TopFigures& figures = row.figures;
    std::vector<Cell>& cells = rows.emplace_back();
    cells.push_back({live.text(figures.sums.live_bytes), bold(TopSort::kLive)});
    cells.push_back({exact_number(figures.sums.live_blocks), bold(TopSort::kBlocks)});
    cells.push_back({table.has_growth ? sign_of(figures.growth_bytes) + growth.text(magnitude(figures.growth_bytes))
                                      : std::string(),
                     bold(TopSort::kGrowth)});
    cells.push_back({rate.text(rounded(figures.bytes_per_s)), bold(TopSort::kRate)});
    const std::size_t shown = std::min(figures.over_time.size(), kRowHistory);
    cells.push_back({shown > 1 ? page.sparkline(figures.over_time.data() + figures.over_time.size() - shown, shown)
                               : std::string()});
    const Cell name{row.name.label, row.name.is_own ? std::optional(TextColour::kBold) : std::nullopt};
    const Cell location{row.name.location, TextColour::kDim};
    if (view.full_names) cells.insert(cells.end(), {location, name});
    else cells.insert(cells.end(), {name, location});
  }
  return rows;
}

}  // namespace

const char* heading_of(By by) noexcept {
  switch (by) {
    case By::kFunction: return "function";
    case By::kLine: return "line";
    case By::kSite: return "call site";
    case By::kStack: return "stack";
    case By::kModule: return "module";
    case By::kThread: return "thread";
    case By::kProcess:
    case By::kProgram: break;
  }
  return "";
}

const char* words_for(TopSort sort) noexcept {
  switch (sort) {
    case TopSort::kLive: return "live bytes";
    case TopSort::kBlocks: return "live blocks";
    case TopSort::kGrowth: return "growth";
    case TopSort::kRate: return "bytes allocated per second";
  }
  return "";
}

TopLines lines_of(const TopTable& table, const TextStyle& style, const ViewOptions& view) {
  TopLines lines;
  TextPage head(style);
  for (const std::string& line : render::wrapped(title_of(table), style.width)) head.line(line);
  for (const std::string& line : render::wrapped(totals_of(table), style.width - 2)) head.line("  " + line);
  if (!table.continued_in.empty())
    for (const std::string& line : render::wrapped(
             "the process is recorded in " + render::clean_utf8(table.continued_in) + " now", style.width - 2))
      head.line("  " + line);
  if (!used_project_file.empty())
    head.line("  " + head.clip(render::clean_utf8(project_file_words()), style.width - 2));
  const std::vector<std::uint64_t>& levels = table.total.over_time;
  if (levels.size() > 1) head.line("  " + head.sparkline(levels.data(), levels.size()));
  lines.head = head.lines();
  if (table.rows.empty()) return lines;

  TextPage page(style);
  write_columns(page, columns_of(table, view), cells_of(table, page, view));
  lines.rows = page.lines();
  lines.columns = lines.rows.front();
  lines.rows.erase(lines.rows.begin());

  const std::size_t left_out = table.all_rows - table.rows.size();
  if (left_out != 0) {
    std::uint64_t shown = 0;
    for (const TopRow& row : table.rows) shown += row.figures.sums.live_bytes;
    TextPage rest(style);
    rest.line(rest.clip("  +" + exact_number(left_out) + " more, " +
                            human_bytes(table.total.sums.live_bytes - std::min(shown, table.total.sums.live_bytes)) +
                            " live",
                        style.width));
    lines.rest = rest.lines().front();
  }
  return lines;
}

std::string text_of(const TopTable& table, const TextStyle& style, const ViewOptions& view) {
  const TopLines lines = lines_of(table, style, view);
  TextPage page(style);
  for (const std::string& line : lines.head) page.line(&line == lines.head.data() ? page.bold(line) : line);
  page.heading(std::string("By ") + heading_of(table.by) + (table.only_own ? ", own code only" : "") +
               ", sorted by " + words_for(table.sort));
  if (lines.rows.empty()) page.line("  nothing was allocated yet");
  else page.line(lines.columns);
  for (const std::string& line : lines.rows) page.line(line);
  if (!lines.rest.empty()) page.line(page.clip(lines.rest + "; --top 0 prints all", style.width));
  return page.text();
}

}  // namespace heapprof::cli
