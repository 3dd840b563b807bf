#include "analyzer/cli/commands/where_memory_went/source_output.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "analyzer/base/base_name.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::exact_number;
using render::percent;
using views::SourceFile;
using views::SourceLine;

constexpr const char* kNoFile = "(no source file known)";
constexpr std::size_t kTabWidth = 8;

/// A line of a file as it is printed: tabs expanded, and no control characters, which a terminal would obey.
std::string printable(std::string_view line) {
  std::string expanded;
  for (const char c : line) {
    if (c == '\t') expanded.append(kTabWidth - expanded.size() % kTabWidth, ' ');
    else expanded += c;
  }
  return clean_utf8(expanded);
}

/// Figures of one cost in a column; empty where there are none.
class FigureColumn {
 public:
  FigureColumn(const Figure& figure, std::uint64_t largest) : figure_(figure), sizes_(largest) {}
  std::string text(const model::Costs& costs) const {
    const std::uint64_t value = figure_.of(costs);
    if (value == 0) return {};
    return figure_.is_bytes ? sizes_.text(value) : exact_number(value);
  }

 private:
  const Figure& figure_;
  const render::ByteColumn sizes_;
};

std::string value_text(const Figure& figure, std::uint64_t value) {
  return figure.is_bytes ? render::human_bytes(value) : exact_number(value);
}

Json modules_json(const model::Profile& profile, const SourceFile& file) {
  Json modules = Json::array();
  for (const std::uint32_t module : file.modules) modules.push_back(profile.modules[module].path);
  return modules;
}

std::string functions_text(const Findings& findings, const SourceLine& line) {
  std::string text;
  for (const std::uint32_t function : line.functions) {
    const std::string name = findings.frames().name_of(function);
    text +=
        (text.empty() ? "in " : ", ") + (findings.view().full_names ? render::clean_utf8(name) : function_name(name));
  }
  return text;
}

/// "Live at the peak: 12.3 MiB in 45 blocks; shares are of this."
void print_whole(ReportText& text, const SourceAnswer& answer) {
  const RankedStack whole = figures_of(answer.profile.totals, answer.options.cost);
  const std::string sentence = heading_of(answer.options.cost, answer.profile) + ": " +
                               render::human_bytes(whole.bytes) + " in " +
                               count_of_kind(answer.profile, whole.blocks) + "; shares are of this.";
  for (const std::string& piece : render::wrapped(sentence, text.style().width)) text.line(piece);
}

/// Lines before and after FILE:LINE, at least.
constexpr int kContextOfNamedLine = 5;

/// How many lines before and after FILE:LINE are printed.
int lines_around(const SourceAnswer& answer) {
  return std::max(static_cast<int>(std::min<std::size_t>(answer.options.context, 1'000'000)), kContextOfNamedLine);
}

/// The lines that have the cost, with the lines around them; those around the line that the user named; or all.
std::vector<int> lines_to_print(const SourceAnswer& answer, const SourceListing& listing, int line_count) {
  std::vector<int> shown;
  if (answer.options.all_lines) {
    for (int line = 1; line <= line_count; ++line) shown.push_back(line);
    return shown;
  }
  const Figure& figure = figure_of(answer.options.cost);
  const auto context = static_cast<int>(std::min<std::size_t>(answer.options.context, 1'000'000));
  if (listing.around != 0) {
    const int around = lines_around(answer);
    for (int line = std::max(1, listing.around - around); line <= std::min(line_count, listing.around + around);
         ++line)
      shown.push_back(line);
    return shown;
  }
  for (const SourceLine& line : listing.file.lines) {
    if (figure.of(line.total) == 0 || line.line < 1 || line.line > line_count) continue;
    const int first = std::max({1, line.line - context, shown.empty() ? 1 : shown.back() + 1});
    for (int at = first; at <= std::min(line_count, line.line + context); ++at) shown.push_back(at);
  }
  return shown;
}

/// The rows of a listing: figures, line numbers, text. Where lines of the text were left out, there is a mark.
class ListingTable {
 public:
  ListingTable(const SourceAnswer& answer, const SourceListing& listing)
      : figure_(figure_of(answer.options.cost)), whole_(figure_.of(answer.profile.totals)),
        sizes_(figure_, largest_total(listing)), has_text_(listing.text.has_value()) {}

  void line(int number, const model::Costs& self, const model::Costs& total, const std::string& text) {
    if (has_text_ && number > last_ + 1 && last_ != 0) rows_.push_back({{}, {}, {}, {"…", TextColour::kDim}, {}});
    const bool has_costs = figure_.of(total) != 0;
    rows_.push_back({{sizes_.text(self), TextColour::kBold},
                     {sizes_.text(total)},
                     {has_costs ? percent(figure_.of(total), whole_) : ""},
                     {number == 0 ? "?" : std::to_string(number), TextColour::kDim},
                     {text, has_costs ? std::nullopt : std::optional(TextColour::kDim)}});
    last_ = number;
  }

  bool empty() const noexcept { return rows_.empty(); }

  void write(ReportText& text) const {
    using Kind = Column::Kind;
    write_columns(text, {{"self"}, {"total"}, {"share", Kind::kFigure, 1}, {"line"}, {"source", Kind::kText}}, rows_);
  }

 private:
  std::uint64_t largest_total(const SourceListing& listing) const {
    std::uint64_t value = 0;
    for (const SourceLine& line : listing.file.lines) value = std::max(value, figure_.of(line.total));
    return value;
  }

  const Figure& figure_;
  const std::uint64_t whole_;
  const FigureColumn sizes_;  ///< of self and total: the two can be compared
  const bool has_text_;
  std::vector<std::vector<Cell>> rows_;
  int last_ = 0;
};

/// What is printed when neither the named line nor those around it have costs, and the text is missing.
std::string no_costs_near(const SourceListing& listing, const std::map<int, const SourceLine*>& with_costs) {
  const auto after = with_costs.upper_bound(listing.around);
  std::string nearest;
  if (after != with_costs.begin() && std::prev(after)->first != 0) nearest = std::to_string(std::prev(after)->first);
  if (after != with_costs.end()) nearest += (nearest.empty() ? "" : " and ") + std::to_string(after->first);
  return "No line around " + std::to_string(listing.around) + " has this cost" +
         (nearest.empty() ? "." : "; the nearest that do: " + nearest + ".");
}

void append_lines(ReportText& text, const SourceAnswer& answer, const SourceListing& listing) {
  const Figure& figure = figure_of(answer.options.cost);
  std::map<int, const SourceLine*> with_costs;
  for (const SourceLine& line : listing.file.lines)
    if (figure.of(line.total) != 0) with_costs.emplace(line.line, &line);
  if (with_costs.empty() && !answer.options.all_lines) {
    text.line().line("None of its lines has this cost.");
    return;
  }
  text.line();
  ListingTable table(answer, listing);
  const std::vector<std::string_view> lines =
      listing.text ? symbols::lines_of(listing.text->text) : std::vector<std::string_view>();
  const auto line_count = static_cast<int>(lines.size());
  const auto without_text = [&](const SourceLine& line) {
    if (listing.around != 0 && std::abs(line.line - listing.around) > lines_around(answer)) return;
    table.line(line.line, line.self, line.total, functions_text(answer.findings, line));
  };
  if (const auto unknown = with_costs.find(0); unknown != with_costs.end()) without_text(*unknown->second);
  for (const int number : lines_to_print(answer, listing, line_count)) {
    const auto found = with_costs.find(number);
    const model::Costs none;
    const bool has_costs = found != with_costs.end();
    table.line(number, has_costs ? found->second->self : none, has_costs ? found->second->total : none,
               printable(lines[static_cast<std::size_t>(number - 1)]));
  }
  for (auto line = with_costs.upper_bound(line_count); line != with_costs.end(); ++line) without_text(*line->second);
  if (table.empty()) text.line(no_costs_near(listing, with_costs));
  else table.write(text);
}

void append_origin_of_text(ReportText& text, const SourceListing& listing) {
  if (!listing.text) {
    text.row("text", "none",
             "the file " + clean_utf8(listing.why_no_text) + "; --source-path DIRECTORY searches below a directory");
    return;
  }
  if (listing.text->found_at.empty()) text.row("text", "bundle", "packed when the trace was bundled");
  else if (listing.text->found_at != listing.file.path) text.row("text", "file", clean_utf8(listing.text->found_at));
}

}  // namespace

std::string file_name_of(const model::Profile& profile, const SourceFile& file) {
  if (file.path.empty()) return kNoFile;
  std::string name = clean_utf8(file.path);
  if (file.path.front() == '/') return name;
  for (const std::uint32_t module : file.modules)
    return clean_utf8(base_name(profile.modules[module].path)) + ":" + name;
  return name;
}

Json files_json(const SourceAnswer& answer, const std::vector<SourceFile>& files) {
  Json json = head_json(answer.profile);
  json["total"] = figures_json(answer.profile.totals);
  json["all_files"] = files.size();
  Json& list = json["files"] = Json::array();
  for (const SourceFile& file : files) {
    if (answer.options.top != 0 && list.size() == answer.options.top) break;
    list.push_back({{"file", text_or_null(file.path)},
                    {"modules", modules_json(answer.profile, file)},
                    {"lines_with_costs", file.lines.size()},
                    {"self", figures_json(file.self)},
                    {"total", figures_json(file.total)}});
  }
  json["symbol_warnings"] = answer.names.warnings();
  return json;
}

namespace {

/// The name of the file if no other one has it, else its path.
std::string unique_name(const SourceFile& file, const std::vector<SourceFile>& files) {
  const std::string name = base_name(file.path);
  const auto count = std::ranges::count_if(files, [&](const SourceFile& one) { return base_name(one.path) == name; });
  return count == 1 ? name : file.path;
}

/// The function of the line that costs most itself, or in total where none costs anything itself. Of FILE:LINE: of
/// the lines around it. kNoIndex: none is known.
std::uint32_t costliest_function(const SourceAnswer& answer, const SourceListing& listing, const Figure& figure) {
  const auto rank = [&](const SourceLine& line) { return std::pair(figure.of(line.self), figure.of(line.total)); };
  const SourceLine* first = nullptr;
  for (const SourceLine& line : listing.file.lines) {
    if (listing.around != 0 && std::abs(line.line - listing.around) > lines_around(answer)) continue;
    if (figure.of(line.total) != 0 && !line.functions.empty() && (first == nullptr || rank(line) > rank(*first)))
      first = &line;
  }
  return first == nullptr ? model::kNoIndex : first->functions.front();
}

}  // namespace

std::string files_text(const SourceAnswer& answer, const std::vector<SourceFile>& files) {
  constexpr double kMinShare = 0.005;
  const Figure& figure = figure_of(answer.options.cost);
  const std::uint64_t whole = figure.of(answer.profile.totals);
  ReportText text(answer.profile, style_for(answer.options.trace.output), &answer.findings);
  text.title().line();
  print_whole(text, answer);
  std::size_t shown = 0;
  while (shown < files.size() && (answer.options.top == 0 || shown < answer.options.top)) {
    if (answer.options.top != 0 &&
        static_cast<double>(figure.of(files[shown].self)) < kMinShare * static_cast<double>(whole))
      break;
    ++shown;
  }
  text.heading("Source files, sorted by self");
  if (shown == 0) text.line("  none");
  std::uint64_t largest = 0, rest = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i < shown) largest = std::max(largest, figure.of(files[i].total));
    if (i >= shown) rest += figure.of(files[i].self);
  }
  const FigureColumn sizes(figure, largest);
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < shown; ++i)
    rows.push_back(
        {{sizes.text(files[i].self), TextColour::kBold},
         {percent(figure.of(files[i].self), whole)},
         {sizes.text(files[i].total)},
         {percent(figure.of(files[i].total), whole)},
         {files[i].path.empty() ? kNoFile
                                : text.clip_front(file_name_of(answer.profile, files[i]), text.style().width / 2)}});
  using Kind = Column::Kind;
  if (shown != 0)
    write_columns(text,
                  {{"self"},
                   {"share", Kind::kFigure, 1},
                   {"total", Kind::kFigure, 2},
                   {"share", Kind::kFigure, 3},
                   {"file", Kind::kText}},
                  rows);
  if (shown < files.size())
    text.line("  +" + exact_number(files.size() - shown) + " more, " + value_text(figure, rest) +
              " of self; --top 0 prints all");
  const auto with_path = std::find_if(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(shown),
                                      [](const SourceFile& file) { return !file.path.empty(); });
  if (with_path != files.begin() + static_cast<std::ptrdiff_t>(shown))
    NextCommands(answer.options.trace)
        .add("Its lines", "source", unique_name(*with_path, files), cost_words(answer.options.cost))
        .write(text);
  text.notes(answer.names.warnings());
  return text.text();
}

Json listing_json(const SourceAnswer& answer, const SourceListing& listing) {
  Json json = head_json(answer.profile);
  json["file"] = listing.file.path;
  json["modules"] = modules_json(answer.profile, listing.file);
  json["function"] = text_or_null(listing.function);
  json["line"] = listing.around == 0 ? Json(nullptr) : Json(listing.around);
  Json& text = json["text"] = Json::object();
  text["from"] = !listing.text ? Json(nullptr) : Json(listing.text->found_at.empty() ? "bundle" : "file");
  text["path"] = listing.text ? text_or_null(listing.text->found_at) : Json(nullptr);
  text["warning"] = text_or_null(listing.warning);
  json["all_total"] = figures_json(answer.profile.totals);
  json["self"] = figures_json(listing.file.self);
  json["total"] = figures_json(listing.file.total);
  const std::vector<std::string_view> texts =
      listing.text ? symbols::lines_of(listing.text->text) : std::vector<std::string_view>();
  const auto line_count = static_cast<int>(texts.size());
  const findings::CodeFrames& frames = answer.findings.frames();
  Json& list = json["lines"] = Json::array();
  const SourceLine none;
  const auto add = [&](int number, const SourceLine& line) {
    Json entry;
    entry["line"] = number > 0 ? Json(number) : Json(nullptr);
    entry["text"] = number > 0 && number <= line_count
                        ? Json(std::string(texts[static_cast<std::size_t>(number - 1)]))
                        : Json(nullptr);
    entry["self"] = figures_json(line.self);
    entry["total"] = figures_json(line.total);
    Json& functions = entry["functions"] = Json::array();
    for (const std::uint32_t function : line.functions) functions.push_back(frames.name_of(function));
    list.push_back(std::move(entry));
  };
  // The lines that the text prints: with --all all, of FILE:LINE those around it, else those with costs.
  const bool is_part = listing.around != 0 && !answer.options.all_lines;
  const int first = is_part ? std::max(1, listing.around - lines_around(answer)) : 1;
  const int last = is_part ? std::min(line_count, listing.around + lines_around(answer)) : line_count;
  int next = first;
  const auto add_plain_until = [&](int end) {
    if (answer.options.all_lines || is_part)
      for (; next < end; ++next) add(next, none);
  };
  for (const SourceLine& line : listing.file.lines) {
    if (is_part && std::abs(line.line - listing.around) > lines_around(answer)) continue;
    add_plain_until(std::min(line.line, last + 1));
    add(line.line, line);
    next = std::max(next, line.line + 1);
  }
  add_plain_until(last + 1);
  json["symbol_warnings"] = answer.names.warnings();
  return json;
}

std::string listing_text(const SourceAnswer& answer, const SourceListing& listing) {
  const Figure& figure = figure_of(answer.options.cost);
  const std::uint64_t whole = figure.of(answer.profile.totals);
  ReportText text(answer.profile, style_for(answer.options.trace.output), &answer.findings);
  text.title().line();
  print_whole(text, answer);
  if (!listing.function.empty()) text.heading(text.clip(clean_utf8(listing.function), text.style().width));
  const std::string path = text.clip_front(clean_utf8(listing.file.path), text.style().width);
  if (listing.function.empty()) text.heading(path);
  else text.line(path);
  const std::string lines = listing.around == 0 ? "these lines" : "the lines of this file";
  text.row("total", value_text(figure, figure.of(listing.file.total)),
           percent(figure.of(listing.file.total), whole) + ", in and below " + lines);
  text.row("self", value_text(figure, figure.of(listing.file.self)),
           percent(figure.of(listing.file.self), whole) + ", with a call site in " + lines);
  append_origin_of_text(text, listing);
  if (!listing.warning.empty()) text.list_item(clean_utf8(listing.warning));
  append_lines(text, answer, listing);
  if (const std::uint32_t function = costliest_function(answer, listing, figure); function != model::kNoIndex)
    NextCommands(answer.options.trace)
        .add("Who calls the costliest line", "callers", function_name(answer.findings.frames().name_of(function)),
             cost_words(answer.options.cost))
        .write(text);
  text.notes(answer.names.warnings());
  return text.text();
}

}  // namespace heapprof::cli
