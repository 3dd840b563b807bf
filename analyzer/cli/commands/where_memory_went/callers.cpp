// heapprof callers: who calls a function, and what it calls, each with what it costs.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/where_memory_went/named_functions.h"
#include "analyzer/cli/text/answer_text.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/views/neighbours.h"

namespace heapprof::cli {
namespace {

using views::Neighbour;
using views::Neighbours;

class CallersAnswer {
 public:
  CallersAnswer(const CallersOptions& options, const model::Profile& profile, const StackNames& names,
                const Findings& findings, Neighbours around, std::optional<RankedStack> largest, std::string function,
                bool has_source)
      : options_(options), profile_(profile), names_(names), findings_(findings), view_names_(profile, findings),
        figure_(figure_of(options.cost)), around_(std::move(around)), largest_(largest),
        function_(std::move(function)), has_source_(has_source) {
    sort(around_.callers);
    sort(around_.callees);
  }

  Json json() const {
    Json json = head_json(profile_);
    json["function"] = function_;
    json["only_own"] = options_.call_sites.view.only_own;
    json["recursive"] = around_.recursive;
    json["self"] = figures_json(around_.self);
    json["as_helper"] = figures_json(around_.as_helper);
    json["total"] = figures_json(around_.total);
    json["callers"] = list(around_.callers);
    json["callees"] = list(around_.callees);
    json["largest_stack"] = nullptr;
    if (largest_)
      json["largest_stack"] = {
          {"bytes", largest_->bytes}, {"blocks", largest_->blocks}, {"stack", stack_json(names_, largest_->node)}};
    json["symbol_warnings"] = names_.warnings();
    return json;
  }

  std::string text() const {
    const RankedStack whole = figures_of(profile_.totals, options_.cost);
    ReportText text(profile_, style_for(options_.trace.output), &findings_);
    text.title().line();
    text.line(heading_of(options_.cost, profile_) + ": " + render::human_bytes(whole.bytes) + " in " +
              count_of_kind(profile_, whole.blocks) + ".");
    text.heading(text.clip(render::clean_utf8(function_), text.style().width));
    const std::uint64_t all = figure_.of(profile_.totals);
    const std::uint64_t total = figure_.of(around_.total);
    if (total == 0) {
      text.line("  none: " + nothing_text());
      text.notes(names_.warnings());
      return text.text();
    }
    text.row("total", value_text(total), render::percent(total, all) + " of everything");
    if (const std::uint64_t self = figure_.of(around_.self); self != 0)
      text.row("self", value_text(self), render::percent(self, total) + " of its total: it is the call site");
    if (const std::uint64_t helper = figure_.of(around_.as_helper); helper != 0)
      text.row("as helper", value_text(helper),
               render::percent(helper, total) + " of its total: it allocates for a call site above it");
    table(text, "Callers", around_.callers);
    table(text, "Callees", around_.callees);
    if (around_.recursive)
      text.line().paragraph(
          "The function is recursive: a stack counts once for each of its callers and callees, so "
          "that their sum can exceed the total.");
    NextCommands next(options_.trace);
    if (has_source_) next.add("Its lines", "source", options_.function, cost_words(options_.cost));
    const std::string cost = cost_words(options_.cost);
    if (!around_.callers.empty() && around_.callers.front().frame.exists())
      next.add("Callers of the first caller", "callers",
               view_names_.of_frame(around_.callers.front().frame, false).label, cost);
    next.add("All functions", "report", {}, "--by function" + (cost.empty() ? "" : " " + cost)).write(text);
    text.notes(names_.warnings());
    return text.text();
  }

 private:
  void sort(std::vector<Neighbour>& rows) const {
    std::stable_sort(rows.begin(), rows.end(), [&](const Neighbour& a, const Neighbour& b) {
      return figure_.of(a.total) > figure_.of(b.total);
    });
  }

  std::string value_text(std::uint64_t value) const {
    return figure_.is_bytes ? render::human_bytes(value) : render::exact_number(value);
  }

  /// What the function has instead of the cost that was asked for.
  std::string nothing_text() const {
    const model::Costs& total = around_.total;
    const std::string text = "it allocated " + render::human_bytes(total.allocated_bytes) + " in " +
                             count_of_kind(profile_, total.allocations);
    if (total.allocations == 0) return text;
    return text + "; --cost " + (total.allocated_bytes != 0 ? "allocated" : "allocations") + " prints these";
  }

  ViewName name_of(const Neighbour& row) const {
    ViewName name = view_names_.of_frame(row.frame, options_.by_line);
    if (!row.frame.exists()) name.name = name.label = "(no caller)";
    return name;
  }

  Json list(const std::vector<Neighbour>& rows) const {
    Json list = Json::array();
    for (const Neighbour& row : rows) {
      Json entry = name_json(name_of(row));
      entry["total"] = figures_json(row.total);
      list.push_back(std::move(entry));
    }
    return list;
  }

  void table(ReportText& text, const char* heading, const std::vector<Neighbour>& rows) const {
    std::size_t shown = 0, left_out = 0;
    std::uint64_t rest = 0;
    for (const Neighbour& row : rows) {
      if (figure_.of(row.total) == 0) break;
      if (options_.top == 0 || shown < options_.top) {
        ++shown;
      } else {
        ++left_out;
        rest += figure_.of(row.total);
      }
    }
    text.heading(std::string(heading) + (options_.call_sites.view.only_own ? " in own code" : "") +
                 ", with shares of the function's total");
    if (shown == 0) {
      text.line("  none");
      return;
    }
    const render::ByteColumn sizes(figure_.of(rows.front().total));
    std::vector<std::vector<Cell>> cells;
    for (std::size_t i = 0; i < shown; ++i) {
      const ViewName name = name_of(rows[i]);
      const std::uint64_t value = figure_.of(rows[i].total);
      const Figure& beside = figure_beside(options_.cost);
      const std::uint64_t other = beside.of(rows[i].total);
      cells.push_back({{figure_.is_bytes ? sizes.text(value) : render::exact_number(value), TextColour::kBold},
                       {render::percent(value, figure_.of(around_.total))},
                       {beside.is_bytes ? render::human_bytes(other) : render::exact_number(other)}});
      std::ranges::move(view_names_.name_cells(name), std::back_inserter(cells.back()));
    }
    std::vector<Column> columns = {
        {"total"},
        {"share", Column::Kind::kFigure, 1},
        {figure_beside(options_.cost).is_bytes ? "bytes" : "blocks", Column::Kind::kFigure, 2}};
    std::ranges::move(view_names_.name_columns("function"), std::back_inserter(columns));
    write_columns(text, columns, cells);
    if (left_out != 0)
      text.line("  +" + render::exact_number(left_out) + " more, " + value_text(rest) + "; --top 0 prints all");
  }

  const CallersOptions& options_;
  const model::Profile& profile_;
  const StackNames& names_;
  const Findings& findings_;
  const ViewNames view_names_;
  const Figure& figure_;
  Neighbours around_;
  const std::optional<RankedStack> largest_;  ///< of the function's stacks; none: none has the cost
  const std::string function_;
  const bool has_source_;  ///< a source file of the function is known
};

/// The stack that has most of the cost, of those with a frame of the functions.
std::optional<RankedStack> largest_stack_of(const std::vector<std::uint32_t>& functions, const Findings& findings,
                                            const model::Profile& profile, Cost cost) {
  const findings::CodeFrames& frames = findings.frames();
  for (const RankedStack& stack : rank_stacks(profile, cost))
    if (std::ranges::any_of(frames.stack(stack.node), [&](findings::FrameRef frame) {
          return std::ranges::binary_search(functions, frames.function_of(frame));
        }))
      return stack;
  return std::nullopt;
}

/// Returns whether the function occurs.
bool print_callers(const CallersOptions& options, const model::Profile& profile) {
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes_of_findings(profile));
  const Findings findings(profile, names, options.call_sites);
  const NamedFunctions match = functions_named(findings, options.function);
  const views::FrameTree tree(findings.frames(), findings.helpers(),
                              options.by_line ? views::Level::kLine : views::Level::kFunction,
                              options.call_sites.view.scope());
  std::set<std::uint32_t> keys;
  for (const views::FrameNode& node : tree.nodes())
    if (node.frame.exists() &&
        std::binary_search(match.functions.begin(), match.functions.end(), findings.frames().function_of(node.frame)))
      keys.insert(node.key);
  Neighbours around = views::neighbours_of(tree, {keys.begin(), keys.end()});
  if (around.total.empty() && options.call_sites.view.only_own && !match.functions.empty()) {
    print_message(options.trace.trace + ": '" + render::clean_utf8(options.function) +
                  "' is not in the program's own code, or has no costs; leave out --only-own, or add --own REGEX");
    return false;
  }
  if (around.total.empty()) {
    print_message(options.trace.trace + ": no stack with costs has a function '" +
                  render::clean_utf8(options.function) + "'" + suggested_names(findings, options.function));
    return false;
  }
  // All functions of one name count as one; the name is whole if it is that of all.
  const std::string first = findings.frames().name_of(match.functions.front());
  const bool same = std::all_of(match.functions.begin(), match.functions.end(),
                                [&](std::uint32_t number) { return findings.frames().name_of(number) == first; });
  const bool has_source = std::ranges::any_of(match.functions, [&](std::uint32_t number) {
    const symbols::SourceFrame* const source =
        findings.frames().source_of(findings.frames().functions()[number].frame);
    return source != nullptr && !source->file.empty();
  });
  const CallersAnswer answer(options, profile, names, findings, std::move(around),
                             largest_stack_of(match.functions, findings, profile, options.cost),
                             same ? first : match.name, has_source);
  write_output(options.trace.output, options.trace.json ? dump(answer.json()) : answer.text());
  return true;
}

}  // namespace

int run_callers(const CallersOptions& options) {
  bool found = true;
  const int status = run_on_profile(for_costs(options.trace),
                                    [&](const model::Profile& profile) { found = print_callers(options, profile); });
  return found ? status : std::max(status, 1);
}

}  // namespace heapprof::cli
