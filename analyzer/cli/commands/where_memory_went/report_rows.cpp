#include "analyzer/cli/commands/where_memory_went/report_rows.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "analyzer/base/shell_quote.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/cli/text/processes_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/stack_labels.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"
#include "analyzer/views/frame_tree.h"
#include "analyzer/views/row_history.h"
#include "analyzer/views/thread_rows.h"

namespace heapprof::cli {
namespace {

using render::exact_number;
using render::percent;
using views::By;
using views::Row;

/// Tables end where a row has less than this share of the total by which they are sorted.
constexpr double kMinRowShare = 0.005;
constexpr std::size_t kHistoryParts = 9;
/// Further rows have no live bytes over time, which take 8 KiB a row while the trace is read.
constexpr std::size_t kMaxRowsWithHistory = 1'000;

struct ByWords {
  const char* name;     ///< as --by names it
  const char* heading;  ///< "function"
  bool divides;         ///< every stack is in one row, so that a row's total is its own cost
};

ByWords words_for(By by) {
  switch (by) {
    case By::kFunction: return {"function", "function", false};
    case By::kLine: return {"line", "line", false};
    case By::kSite: return {"site", "call site", true};
    case By::kStack: return {"stack", "stack", true};
    case By::kModule: return {"module", "module", false};
    case By::kThread: return {"thread", "thread", true};
    case By::kProcess: return {"process", "process", true};
    case By::kProgram: break;
  }
  return {};
}

std::uint64_t value_of(const Row& row, const RowColumn& column) noexcept {
  return column.figure->of(column.total ? row.total : row.self);
}

/// The rows, and the group of each stack; by thread, no groups.
struct GroupedRows {
  std::vector<Row> rows;
  std::optional<views::StackGroups> groups;
};

GroupedRows rows_at(const Findings& findings, views::Level level, views::Scope scope) {
  const views::FrameTree tree(findings.frames(), findings.helpers(), level, scope);
  return {views::rows_of(tree), views::groups_of(tree)};
}

GroupedRows rows_of(const ReportOptions& options, const model::Profile& profile, const Findings& findings) {
  const views::Scope scope = options.call_sites.view.scope();
  switch (*options.rows.by) {
    case By::kSite:
      return {views::rows_by_site(findings.frames(), findings.helpers(), scope),
              views::groups_by_site(findings.frames(), findings.helpers(), scope)};
    case By::kStack: {
      views::StackGroups itself(profile.nodes.size());
      std::iota(itself.begin(), itself.end(), 0);
      return {views::rows_by_stack(findings.frames(), findings.helpers(), scope), std::move(itself)};
    }
    case By::kThread: return {views::rows_by_thread(profile), std::nullopt};
    case By::kProcess: return {views::rows_by_process(profile), std::nullopt};
    case By::kProgram: break;
    case By::kFunction: return rows_at(findings, views::Level::kFunction, scope);
    case By::kLine: return rows_at(findings, views::Level::kLine, scope);
    case By::kModule: return rows_at(findings, views::Level::kModule, scope);
  }
  return {};
}

/// What one program of several recordings costs in each row, by Row::group.
class RowsOfProgram {
 public:
  RowsOfProgram(const MergedRecordings::Program& program, const views::StackGroups& groups)
      : name_(program.name), totals_(program.totals) {
    for (const auto& [node, costs] : program.costs) costs_[groups[node]] += costs;
  }
  const std::string& name() const noexcept { return name_; }
  const model::Costs& totals() const noexcept { return totals_; }
  /// The row's own costs.
  model::Costs self(const Row& row) const {
    const auto at = costs_.find(row.group);
    return at == costs_.end() ? model::Costs() : at->second;
  }

 private:
  std::string name_;
  model::Costs totals_;
  std::unordered_map<std::uint32_t, model::Costs> costs_;
};

/// The rows of a report in the order in which they are printed.
struct RankedRows {
  const ReportOptions& options;
  const model::Profile& profile;
  const ViewNames& names;
  RowColumn sort;
  std::vector<Row> rows;
  std::size_t shown = 0;
  /// Of the first rows; empty: not asked for.
  std::vector<std::vector<std::uint64_t>> over_time{};
  const MergedRecordings* recordings = nullptr;  ///< several, in `profile`
  std::vector<RowsOfProgram> programs{};         ///< of these

  By by() const noexcept { return *options.rows.by; }
};

void sort_rows(RankedRows& ranked) {
  std::stable_sort(ranked.rows.begin(), ranked.rows.end(), [&](const Row& a, const Row& b) {
    const RowColumn beside{ranked.sort.figure, !ranked.sort.total};
    return std::pair(value_of(a, ranked.sort), value_of(a, beside)) >
           std::pair(value_of(b, ranked.sort), value_of(b, beside));
  });
}

std::size_t rows_worth_showing(const RankedRows& ranked) {
  const std::size_t top = ranked.options.top;
  if (top == 0) return ranked.rows.size();
  const double least = kMinRowShare * static_cast<double>(ranked.sort.figure->of(ranked.profile.totals));
  std::size_t count = 0;
  while (count < std::min(top, ranked.rows.size()) && value_of(ranked.rows[count], ranked.sort) != 0 &&
         static_cast<double>(value_of(ranked.rows[count], ranked.sort)) >= least)
    ++count;
  return count;
}

/// Reads the trace again.
void read_history(RankedRows& ranked, const replay::Analysis& analysis,
                  const std::optional<views::StackGroups>& groups) {
  const std::size_t count = std::min(ranked.shown, kMaxRowsWithHistory);
  ProgressLine progress("Reading " + ranked.options.trace.trace + " again");
  ranked.over_time = views::live_over_time(analysis, std::span(ranked.rows).first(count), groups ? &*groups : nullptr,
                                           kHistoryParts, [&](const replay::Done& done) { progress.show(done); });
}

Json rows_json(const RankedRows& ranked, const StackNames& names) {
  Json json = head_json(ranked.profile);
  json["by"] = words_for(ranked.by()).name;
  json["sort"] = ranked.sort.name();
  json["only_own"] = ranked.options.call_sites.view.only_own;
  json["total"] = figures_json(ranked.profile.totals);
  json["all_rows"] = ranked.rows.size();
  StackList stacks(names, ranked.options.shared_frames);
  Json list = Json::array();
  for (std::size_t i = 0; i < ranked.shown; ++i) {
    const Row& row = ranked.rows[i];
    Json entry = name_json(ranked.names.of_row(row, ranked.by()));
    if (ranked.by() == By::kThread) {
      entry["index"] = row.thread;
      entry["tid"] = ranked.profile.threads[row.thread].tid;
    }
    if (ranked.by() == By::kProcess) {
      entry["pid"] = ranked.profile.together->processes[row.thread].pid;
      entry["process"] = row.thread;
    }
    entry["self"] = figures_json(row.self);
    entry["total"] = figures_json(row.total);
    if (!ranked.programs.empty()) {
      Json& programs = entry["programs"] = Json::array();
      for (const RowsOfProgram& program : ranked.programs)
        if (const model::Costs self = program.self(row); !self.empty())
          programs.push_back({{"program", program.name()}, {"self", figures_json(self)}});
    }
    if (ranked.options.rows.over_time)
      entry["live_over_time"] = i < ranked.over_time.size() ? Json(ranked.over_time[i]) : Json(nullptr);
    if (ranked.by() == By::kStack) entry["stack"] = stacks.stack(row.node);
    list.push_back(std::move(entry));
  }
  json["rows"] = std::move(list);
  if (ranked.by() == By::kStack) stacks.add_frames_to(json);
  json["symbol_warnings"] = names.warnings();
  return json;
}

std::string rows_csv(const RankedRows& ranked, std::vector<RowColumn> columns) {
  if (columns.empty())
    for (const bool total : {false, true})
      for (const Figure& figure : all_figures()) columns.push_back({&figure, total});
  std::string text = "name,file,line,module,origin";
  for (const RowColumn& column : columns)
    text += (column.total ? ",total_" : ",self_") + std::string(column.figure->key);
  if (ranked.options.rows.over_time) text += ",live_over_time";
  text += "\n";
  for (std::size_t i = 0; i < ranked.shown; ++i) {
    const ViewName name = ranked.names.of_row(ranked.rows[i], ranked.by());
    for (const std::string* field : {&name.name, &name.file}) {
      render::append_csv(text, render::clean_utf8(*field));
      text += ',';
    }
    if (name.line > 0) text += std::to_string(name.line);
    text += ',';
    render::append_csv(text, render::clean_utf8(name.module));
    text += std::string(",") + name.origin;
    for (const RowColumn& column : columns) text += ',' + std::to_string(value_of(ranked.rows[i], column));
    if (ranked.options.rows.over_time) {
      text += ',';
      if (i < ranked.over_time.size())
        for (const std::uint64_t& bytes : ranked.over_time[i])
          text += (&bytes == ranked.over_time[i].data() ? "" : " ") + std::to_string(bytes);
    }
    text += "\n";
  }
  return text;
}

/// A column of the table: its header, and its text for each row.
struct TableColumn {
  Column column;
  std::function<std::string(const Row&)> text;
  bool bold = false;
};

/// Columns of figures, with the share of the total after those of the cost.
class TableColumns {
 public:
  explicit TableColumns(const RankedRows& ranked) : ranked_(ranked) {}

  void add(const RowColumn& column, const std::string& header, int drop, bool bold = false, bool has_totals = false) {
    std::uint64_t largest = 0;
    // With its total beside it, both have the unit of the total.
    const RowColumn widest{column.figure, column.total || has_totals};
    for (std::size_t i = 0; i < ranked_.shown; ++i) largest = std::max(largest, value_of(ranked_.rows[i], widest));
    const render::ByteColumn sizes(largest);
    columns_.push_back({{header, Column::Kind::kFigure, drop},
                        [column, sizes](const Row& row) {
                          const std::uint64_t value = value_of(row, column);
                          return column.figure->is_bytes ? sizes.text(value) : exact_number(value);
                        },
                        bold});
  }
  void add_share(const RowColumn& column, int drop) {
    const std::uint64_t whole = column.figure->of(ranked_.profile.totals);
    columns_.push_back({{"share", Column::Kind::kFigure, drop},
                        [column, whole](const Row& row) { return percent(value_of(row, column), whole); }});
  }
  /// What the largest programs, and all others together, cost in each row.
  void add_programs(const Figure& figure, int drop) {
    constexpr std::size_t kMaxColumns = 4;
    const std::vector<RowsOfProgram>& programs = ranked_.programs;
    const std::size_t single = programs.size() <= kMaxColumns ? programs.size() : kMaxColumns - 1;
    for (std::size_t i = 0; i < single; ++i) add_programs(figure, i, i + 1, programs[i].name(), drop++);
    if (single < programs.size()) add_programs(figure, single, programs.size(), "others", drop);
  }
  const std::vector<TableColumn>& all() const noexcept { return columns_; }

 private:
  void add_programs(const Figure& figure, std::size_t begin, std::size_t end, const std::string& header, int drop) {
    const auto value = [&figure, &programs = ranked_.programs, begin, end](const Row& row) {
      std::uint64_t sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum += figure.of(programs[i].self(row));
      return sum;
    };
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < ranked_.shown; ++i) largest = std::max(largest, value(ranked_.rows[i]));
    const render::ByteColumn sizes(largest);
    columns_.push_back({{render::clean_utf8(header), Column::Kind::kFigure, drop},
                        [value, sizes, is_bytes = figure.is_bytes](const Row& row) {
                          const std::uint64_t of_row = value(row);
                          if (of_row == 0) return std::string("-");
                          return is_bytes ? sizes.text(of_row) : exact_number(of_row);
                        }});
  }

  const RankedRows& ranked_;
  std::vector<TableColumn> columns_;
};

void append_table(ReportText& text, const RankedRows& ranked, const Findings& findings,
                  const std::vector<RowColumn>& chosen) {
  const ByWords words = words_for(ranked.by());
  const Cost cost = ranked.options.cost;
  TableColumns figures(ranked);
  if (chosen.empty()) {
    const RowColumn self{&figure_of(cost), false};
    const RowColumn total{&figure_of(cost), true};
    const bool sorted_by_total = ranked.sort == total && !words.divides;
    const char* const name = cost == Cost::kPeak && ranked.profile.is_moment() ? "live" : figure_of(cost).name;
    figures.add(self, words.divides ? name : "self", sorted_by_total ? 2 : 0, !sorted_by_total, !words.divides);
    figures.add_share(self, sorted_by_total ? 3 : 1);
    if (!words.divides) {
      figures.add(total, "total", sorted_by_total ? 0 : 2, sorted_by_total);
      figures.add_share(total, sorted_by_total ? 1 : 3);
    }
    const std::string beside = figure_beside(cost).is_bytes ? "bytes" : "blocks";
    figures.add({&figure_beside(cost), sorted_by_total}, sorted_by_total ? "total " + beside : beside, 4);
    if (ranked.sort != self && ranked.sort != total) figures.add(ranked.sort, ranked.sort.name(), 0);
    if (words.divides && ranked.programs.size() > 1) figures.add_programs(figure_of(cost), 6);
  } else {
    int drop = 0;
    for (const RowColumn& column : chosen) figures.add(column, column.name(), drop++, column == ranked.sort);
  }
  std::vector<Column> columns;
  for (const TableColumn& figure : figures.all()) columns.push_back(figure.column);
  if (ranked.options.rows.over_time) columns.push_back({"over time", Column::Kind::kText});
  std::ranges::move(ranked.names.name_columns(words.heading), std::back_inserter(columns));
  if (ranked.by() == By::kStack) columns.back().drop = 5;  // its functions say more than the place of the first one
  const std::vector<std::string> labels =
      ranked.by() == By::kStack
          ? stack_labels(ranked.profile, ranked.names, findings, {ranked.rows.data(), ranked.shown})
          : std::vector<std::string>();
  std::vector<std::vector<Cell>> rows;
  for (std::size_t i = 0; i < ranked.shown; ++i) {
    const Row& row = ranked.rows[i];
    ViewName name = ranked.names.of_row(row, ranked.by());
    if (!labels.empty() && !labels[i].empty()) name.label = labels[i];
    std::vector<Cell>& cells = rows.emplace_back();
    for (const TableColumn& figure : figures.all())
      cells.push_back({figure.text(row), figure.bold ? std::optional(TextColour::kBold) : std::nullopt});
    if (ranked.options.rows.over_time)
      cells.push_back({i < ranked.over_time.size()
                           ? text.sparkline(ranked.over_time[i].data(), ranked.over_time[i].size())
                           : std::string()});
    std::ranges::move(ranked.names.name_cells(name), std::back_inserter(cells));
  }
  const std::vector<std::string> left_out = write_columns(text, columns, rows);
  if (chosen.empty() || left_out.empty()) return;
  std::string names;
  for (const std::string& name : left_out) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& line :
       render::wrapped("without " + names + ": the line is too narrow; --csv and --json have all columns",
                       text.style().width - 2))
    text.line("  " + line);
}

/// What the table leaves out: rows, and their own costs together. `chosen`: the table has columns with names.
void append_rest(ReportText& text, const RankedRows& ranked, bool chosen) {
  const std::size_t left_out = ranked.rows.size() - ranked.shown;
  if (left_out == 0) return;
  const Figure& figure = *ranked.sort.figure;
  std::uint64_t sum = 0;
  for (std::size_t i = ranked.shown; i < ranked.rows.size(); ++i) sum += figure.of(ranked.rows[i].self);
  std::string together = figure.is_bytes ? render::human_bytes(sum) : exact_number(sum) + " " + figure.name;
  if (!chosen && &figure == &figure_of(ranked.options.cost))
    together += words_for(ranked.by()).divides ? "" : " of self";
  else if (figure.is_bytes) together += std::string(" ") + figure.name;
  text.line("  +" + exact_number(left_out) + " more, " + together + "; --top 0 prints all");
}

/// The command that answers the next question about the first row.
void append_next_command(ReportText& text, const RankedRows& ranked) {
  if (ranked.shown == 0) return;
  if (ranked.recordings != nullptr) {
    const auto& processes = ranked.profile.together->processes;
    const auto highest = std::ranges::max_element(processes, {}, &model::ProcessFigures::peak_bytes);
    text.line();
    if (!ranked.profile.slice && !ranked.profile.is_moment() && processes.size() > 1)
      text.command("Live when all processes together had most", "heapprof report TRACE --live-at peak");
    text.command("The process with the highest peak",
                 "heapprof report " + shell_quoted(render::clean_utf8(highest->trace)));
    return;
  }
  const Row& first = ranked.rows.front();
  // Several values of --thread or --module select more than each of them.
  TraceOptions selection = ranked.options.trace;
  const std::string cost = cost_words(ranked.options.cost);
  if (ranked.by() == By::kThread) {
    selection.texts.threads = {std::to_string(ranked.profile.threads[first.thread].tid)};
    NextCommands(selection).add("Call sites of the first", "report", {}, cost).write(text);
  } else if (!first.frame.exists()) {
    return;
  } else if (ranked.by() == By::kModule) {
    const ViewName name = ranked.names.of_row(first, ranked.by());
    if (name.module.empty() || !selection.texts.modules.empty()) return;
    selection.texts.modules = {name.label};
    NextCommands(selection)
        .add("Functions of the first", "report", {}, "--by function" + (cost.empty() ? "" : " " + cost))
        .write(text);
  } else {
    NextCommands(selection)
        .add("Callers of the first", "callers", ranked.names.of_frame(first.frame, false).label, cost)
        .write(text);
  }
}

std::string rows_text(const RankedRows& ranked, const Findings& findings, const std::vector<RowColumn>& chosen,
                      const std::vector<std::string>& warnings) {
  const ReportOptions& options = ranked.options;
  const model::Profile& profile = ranked.profile;
  const RankedStack whole = figures_of(profile.totals, options.cost);
  ReportText text(profile, style_for(options.trace.output, options.frames), &findings);
  text.title();
  if (profile.together) write_processes(text, profile, options.top == 0);
  text.line();
  text.line(heading_of(options.cost, profile) + ": " + render::human_bytes(whole.bytes) + " in " +
            count_of_kind(profile, whole.blocks) + (chosen.empty() ? "; shares are of this." : "."));
  text.heading(std::string("By ") + words_for(ranked.by()).heading +
               (options.call_sites.view.only_own && ranked.by() != By::kThread && ranked.by() != By::kProcess
                    ? ", own code only"
                    : "") +
               ", sorted by " + (chosen.empty() ? options.rows.sort : ranked.sort.name()));
  if (ranked.shown == 0) text.line("  none");
  else append_table(text, ranked, findings, chosen);
  append_rest(text, ranked, !chosen.empty());
  append_next_command(text, ranked);
  text.notes(warnings);
  return text.text();
}

/// `analysis` is null for several recordings.
void print_rows(const ReportOptions& options, const model::Profile& profile, const replay::Analysis* analysis,
                const MergedRecordings* recordings) {
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_of_findings(profile));
  const Findings findings(profile, names, options.call_sites);
  const ViewNames view_names(profile, findings);
  std::vector<RowColumn> columns;
  for (const std::string& name : options.rows.columns)
    columns.push_back(column_named(name, options.cost, "--columns"));
  GroupedRows grouped = rows_of(options, profile, findings);
  RankedRows ranked{options, profile, view_names, column_named(options.rows.sort, options.cost, "--sort"),
                    std::move(grouped.rows)};
  sort_rows(ranked);
  const bool as_table = !options.trace.json && !options.rows.csv;
  ranked.shown = as_table           ? rows_worth_showing(ranked)
                 : options.top == 0 ? ranked.rows.size()
                                    : std::min(options.top, ranked.rows.size());
  ranked.recordings = recordings;
  if (recordings != nullptr && grouped.groups) {
    for (const MergedRecordings::Program& program : recordings->programs)
      ranked.programs.emplace_back(program, *grouped.groups);
    std::ranges::stable_sort(ranked.programs, std::ranges::greater(), [&](const RowsOfProgram& program) {
      return figure_of(options.cost).of(program.totals());
    });
  }
  if (options.rows.over_time) read_history(ranked, *analysis, grouped.groups);
  if (options.trace.json) write_output(options.trace.output, dump(rows_json(ranked, names)));
  else if (options.rows.csv) write_output(options.trace.output, rows_csv(ranked, columns));
  else write_output(options.trace.output, rows_text(ranked, findings, columns, names.warnings()));
}

}  // namespace

void print_report_rows(const ReportOptions& options, const replay::Analysis& analysis) {
  print_rows(options, analysis.profile(), &analysis, nullptr);
}

void print_rows_of_processes(const ReportOptions& options, const MergedRecordings& recordings) {
  print_rows(options, recordings.profile, nullptr, &recordings);
}

}  // namespace heapprof::cli
