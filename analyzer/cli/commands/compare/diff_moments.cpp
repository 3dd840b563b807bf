// Of two moments of one recording, each stack has four sums (A: the first moment, B: the second one):
//
//   live at A, live at B
//   new      allocated after A, at B or before, and live at B
//   freed    live at A, and not live at B
//
//   live at B - live at A = new - freed = the net difference
//
// A cache that turns over has much that is new and about as much that is freed; a leak has new blocks only.
#include "analyzer/cli/commands/compare/diff_moments.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/cli/text/text_columns.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/findings/held.h"
#include "analyzer/render/byte_column.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

using findings::Held;
using render::exact_number;
using render::human_bytes;
using render::human_time;

struct Sums {
  Held before;  ///< live at A
  Held after;   ///< live at B
  Held fresh;   ///< new
  Held left;    ///< of `fresh`: live at the moment of --survivors

  Held freed() const noexcept { return before - (after - fresh); }
  std::int64_t net_bytes() const noexcept { return static_cast<std::int64_t>(after.bytes - before.bytes); }
  std::int64_t net_blocks() const noexcept { return static_cast<std::int64_t>(after.blocks - before.blocks); }
  bool changed() const noexcept { return fresh.blocks != 0 || freed().blocks != 0; }
  Sums& operator+=(const Sums& other) noexcept {
    before += other.before;
    after += other.after;
    fresh += other.fresh;
    left += other.left;
    return *this;
  }
};

/// The moments of the comparison, and as the user gave them.
struct Moments {
  replay::ResolvedMoment before;
  replay::ResolvedMoment after;
  std::optional<std::uint64_t> survivors_ns;
  std::string before_text;
  std::string after_text;
};

struct Site {
  findings::FrameRef frame;
  Sums sums;
  std::vector<std::uint32_t> nodes;  ///< that changed, in the order of their rank
};

struct Comparison {
  Moments moments;
  Sums total;
  std::vector<Sums> by_node;           ///< of the profile
  std::vector<std::uint32_t> changed;  ///< nodes that changed, in the order of their rank
  std::vector<Site> sites;             ///< that have changed stacks, in the order of their rank
};

replay::Moment moment_or_end(const std::optional<replay::Moment>& moment) {
  return moment.value_or(replay::Moment{.value = 100, .percent = true, .text = "end", .name = "@end"});
}

/// The options to read the slice from the first moment to the last one.
TraceOptions options_of_slice(const DiffOptions& options) {
  TraceOptions trace = options.trace;
  const std::string survivors = std::exchange(trace.texts.survivors, {});
  trace.selection.from = moment_or_end(options.moment_before);
  trace.selection.to = moment_or_end(options.moment_after);
  trace.selection.reads_marks = trace.selection.needs_marks();
  if (survivors.empty()) return trace;
  trace.selection.to = parse_moment_or_mark(survivors);
  if (!trace.selection.to)
    throw std::invalid_argument("invalid value '" + survivors + "' for --survivors; expected " +
                                kMomentOrMarkExamples);
  trace.selection.to->name = "--survivors " + survivors;
  return trace;
}

/// Precondition: the slice of the analysis is that of options_of_slice().
Moments resolve_moments(const DiffOptions& options, const replay::Analysis& analysis) {
  const replay::Moment before = moment_or_end(options.moment_before);
  const replay::Moment after = moment_or_end(options.moment_after);
  Moments moments{analysis.moment_of(before), analysis.moment_of(after), {}, before.text, after.text};
  if (moments.before.ns > moments.after.ns)
    throw replay::SelectionError(before.name + " is after " + after.name + "; give the earlier moment first");
  if (options.trace.texts.survivors.empty()) return moments;
  moments.survivors_ns = analysis.profile().slice->to_ns;
  if (*moments.survivors_ns < moments.after.ns)
    throw replay::SelectionError("--survivors " + options.trace.texts.survivors + " is before " + after.name +
                                 "; give the same time or a later one");
  return moments;
}

void add_block(Held& held, std::uint64_t bytes) {
  held.bytes += bytes;
  ++held.blocks;
}

std::vector<Sums> sums_by_node(const TraceOptions& options, const replay::Analysis& analysis,
                               const Moments& moments) {
  std::vector<Sums> sums(analysis.profile().nodes.size());
  std::vector<replay::ResolvedMoment> times = {moments.before, moments.after};
  if (moments.survivors_ns) times.push_back({*moments.survivors_ns, {}});
  // Of blocks with the time of a moment, the address and the moment decide whether they are older.
  std::unordered_set<std::uint64_t, ChosenKeyHash> live_before;
  std::unordered_set<std::uint64_t, ChosenKeyHash> live_after;
  ProgressLine progress("Reading " + options.trace + " again");
  analysis.for_each_live_at(
      times,
      [&](std::size_t moment, const replay::LiveBlock& block) {
        Sums& sum = sums[block.node];
        if (moment == 0 && block.time_ns == moments.before.ns) live_before.insert(block.address);
        if (moment == 1 && block.time_ns == moments.after.ns) live_after.insert(block.address);
        const bool after_first = block.time_ns > moments.before.ns ||
                                 (block.time_ns == moments.before.ns && !live_before.contains(block.address));
        const bool before_second = block.time_ns < moments.after.ns ||
                                   (block.time_ns == moments.after.ns && live_after.contains(block.address));
        const bool is_new = after_first && before_second;
        if (moment == 0) add_block(sum.before, block.size);
        if (moment == 1) add_block(sum.after, block.size);
        if (moment == 1 && is_new) add_block(sum.fresh, block.size);
        if (moment == 2 && is_new) add_block(sum.left, block.size);
      },
      [&](const replay::Done& done) { progress.show(done); },
      [&](std::uint64_t address, std::uint64_t allocated_ns) {
        if (allocated_ns == moments.before.ns) live_before.erase(address);
        if (allocated_ns == moments.after.ns) live_after.erase(address);
      });
  return sums;
}

/// What is ranked by, then by what. A net difference counts whatever its sign, so that no large one is cut off.
std::pair<std::int64_t, std::int64_t> rank_of(const Sums& sums, DiffOptions::Order order) {
  const auto fresh = static_cast<std::int64_t>(sums.fresh.bytes);
  const std::int64_t net = std::abs(sums.net_bytes());
  return order == DiffOptions::Order::kNet ? std::pair(net, fresh) : std::pair(fresh, net);
}

void rank_nodes(std::vector<std::uint32_t>& nodes, const std::vector<Sums>& sums, DiffOptions::Order order) {
  std::ranges::stable_sort(nodes, std::greater{}, [&](std::uint32_t node) { return rank_of(sums[node], order); });
}

/// Precondition: `changed` is ranked.
std::vector<Site> sites_of(const Findings& findings, const std::vector<Sums>& sums,
                           const std::vector<std::uint32_t>& changed, DiffOptions::Order order) {
  const std::vector<findings::FrameRef> frames = findings::find_site_frames(findings.frames(), findings.helpers());
  std::vector<Site> sites;
  std::unordered_map<std::uint32_t, std::size_t> position;  // by the number of function and line
  for (const std::uint32_t node : changed) {
    const findings::FrameRef frame = frames[node];
    const std::uint32_t line =
        frame.exists() ? findings.frames().lines_at(frame.address)[frame.index] : model::kNoIndex;
    const auto [at, fresh] = position.try_emplace(line, sites.size());
    if (fresh) sites.push_back({frame, {}, {}});
    sites[at->second].sums += sums[node];
    sites[at->second].nodes.push_back(node);
  }
  std::ranges::stable_sort(sites, std::greater{}, [&](const Site& site) { return rank_of(site.sums, order); });
  return sites;
}

// --- Text ------------------------------------------------------------------------------------------------

std::string signed_blocks(std::int64_t blocks) {
  return (blocks < 0 ? "-" : "+") + render::block_count(static_cast<std::uint64_t>(std::llabs(blocks)));
}
/// "0 B", else with its sign.
std::string change_text(std::int64_t bytes) { return bytes == 0 ? "0 B" : signed_bytes(bytes); }

/// "1.60 s (40%)": the time, and the moment as given where that says something else.
std::string moment_text(std::uint64_t ns, const std::string& given) {
  const bool is_time = !given.empty() && given.find_first_of("0123456789.") == 0 && !given.ends_with("%");
  return human_time(ns) + (is_time || given.empty() ? "" : " (" + render::clean_utf8(given) + ")");
}

std::string survivors_words(const model::Profile& profile, const Moments& moments) {
  return *moments.survivors_ns >= profile.recording.duration_ns ? "the end" : human_time(*moments.survivors_ns);
}

class MomentsText : public ReportText {
 public:
  MomentsText(const DiffOptions& options, const Comparison& comparison, const model::Profile& profile,
              const StackNames& names, const Findings& findings)
      : ReportText(profile, style_for(options.trace.output, options.frames), &findings), options_(options),
        comparison_(comparison), names_(names), view_names_(profile, findings) {}

  void write() {
    titles();
    totals();
    table();
    stacks();
    next_commands();
    notes(names_.warnings());
  }

 private:
  void titles() {
    const Moments& moments = comparison_.moments;
    line(bold(clip(command_of(profile()), style().width)));
    for (const std::string& piece : render::wrapped(completeness_of(profile()) + ".", style().width)) line(piece);
    const std::string what = "From " + moment_text(moments.before.ns, moments.before_text) + " to " +
                             moment_text(moments.after.ns, moments.after_text) + " of ";
    const std::size_t used = render::length_utf8(what);
    constexpr std::size_t kMinNameWidth = 16;  // else the name is on the next line
    const bool fits = used + kMinNameWidth <= style().width;
    const std::string trace = clip_front(render::clean_utf8(options_.trace.trace), style().width - (fits ? used : 0));
    if (fits) line(what + trace);
    else line(what).line(trace);
    if (!used_project_file.empty()) line(clip(render::clean_utf8(project_file_words()), style().width));
    if (!profile().selection_text.empty())
      line(clip(render::clean_utf8("only " + profile().selection_text), style().width));
    line();
  }

  void totals() {
    const Sums& total = comparison_.total;
    const Moments& moments = comparison_.moments;
    const std::string before = human_time(moments.before.ns);
    const std::string after = human_time(moments.after.ns);
    const auto in_blocks = [](const Held& held) { return "in " + render::block_count(held.blocks); };
    row("live", human_bytes(total.before.bytes), in_blocks(total.before) + ", at " + before);
    row("new", human_bytes(total.fresh.bytes),
        in_blocks(total.fresh) + ", allocated after " + before + ", live at " + after);
    row("freed", human_bytes(total.freed().bytes), in_blocks(total.freed()) + ", of those live at " + before);
    row("live", human_bytes(total.after.bytes), in_blocks(total.after) + ", at " + after);
    row("net", change_text(total.net_bytes()), signed_blocks(total.net_blocks()) + ": new less freed");
    if (moments.survivors_ns)
      row("left", human_bytes(total.left.bytes),
          in_blocks(total.left) + ", of the new ones, still live at " + survivors_words(profile(), moments));
  }

  std::size_t shown() const {
    return options_.top == 0 ? comparison_.sites.size() : std::min(options_.top, comparison_.sites.size());
  }

  void table() {
    heading(std::string(options_.order == DiffOptions::Order::kNet ? "Net difference" : "New blocks") +
            " by call site (" + exact_number(shown()) + " of " + exact_number(comparison_.sites.size()) +
            " that changed)");
    if (comparison_.sites.empty()) {
      line("  none");
      return;
    }
    const bool has_left = comparison_.moments.survivors_ns.has_value();
    std::uint64_t largest = 0;
    for (std::size_t i = 0; i < shown(); ++i) {
      const Sums& sums = comparison_.sites[i].sums;
      largest = std::max({largest, sums.fresh.bytes, sums.freed().bytes});  // none of the others is larger
    }
    const render::ByteColumn sizes(largest);
    std::vector<Column> columns = {
        {"#"}, {"net"}, {"new"}, {"blocks", Column::Kind::kFigure, 2}, {"freed", Column::Kind::kFigure, 1}};
    if (has_left) columns.push_back({"left"});
    for (const Column& column : view_names_.name_columns("function")) columns.push_back(column);
    std::vector<std::vector<Cell>> rows;
    for (std::size_t i = 0; i < shown(); ++i) {
      const Site& site = comparison_.sites[i];
      const ViewName name = view_names_.of_frame(site.frame, true);
      std::vector<Cell>& cells = rows.emplace_back();
      cells.push_back({std::to_string(i + 1)});
      const std::int64_t net = site.sums.net_bytes();
      cells.push_back({(net < 0   ? "-"
                        : net > 0 ? "+"
                                  : "") +
                           sizes.text(static_cast<std::uint64_t>(std::llabs(net))),
                       colour_of(net)});
      cells.push_back({sizes.text(site.sums.fresh.bytes)});
      cells.push_back({exact_number(site.sums.fresh.blocks)});
      cells.push_back({sizes.text(site.sums.freed().bytes)});
      if (has_left) cells.push_back({sizes.text(site.sums.left.bytes)});
      for (const Cell& cell : view_names_.name_cells(name)) cells.push_back(cell);
    }
    write_columns(*this, columns, rows);
    rest();
  }

  /// What the table leaves out.
  void rest() {
    const std::size_t left_out = comparison_.sites.size() - shown();
    if (left_out == 0) return;
    Sums sums;
    for (std::size_t i = shown(); i < comparison_.sites.size(); ++i) sums += comparison_.sites[i].sums;
    line("  +" + exact_number(left_out) + " more, net " + change_text(sums.net_bytes()) + ", new " +
         human_bytes(sums.fresh.bytes) + ", freed " + human_bytes(sums.freed().bytes) + "; --top 0 prints all");
  }

  /// The largest stack of each of the first call sites.
  void stacks() {
    const std::size_t count = options_.stacks == 0 ? shown() : std::min(options_.stacks, shown());
    if (count == 0) return;
    heading("Stacks, the first of each call site (" + exact_number(count) + " of " +
            exact_number(comparison_.changed.size()) + ")");
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t node = comparison_.sites[i].nodes.front();
      const Sums& sums = comparison_.by_node[node];
      const std::string headline = "net " + change_text(sums.net_bytes()) + "  new " + human_bytes(sums.fresh.bytes) +
                                   " in " + render::block_count(sums.fresh.blocks) + "  freed " +
                                   human_bytes(sums.freed().bytes) + " in " +
                                   render::block_count(sums.freed().blocks);
      stack(i + 1, clip(headline, style().width - 5), node, names_);
    }
  }

  /// About the new blocks: those of the slice between the moments.
  void next_commands() {
    const auto site = std::ranges::find_if(
        comparison_.sites, [](const Site& one) { return one.sums.fresh.blocks != 0 && one.frame.exists(); });
    if (site == comparison_.sites.end()) return;
    TraceOptions slice = options_.trace;
    slice.texts.from = comparison_.moments.before_text;
    slice.texts.to = comparison_.moments.after_text;
    NextCommands(slice)
        .add("Callers of the first with new blocks", "callers", view_names_.of_frame(site->frame, false).label,
             cost_words(Cost::kLeaked))
        .add("The new blocks as leaks", "leaks", {})
        .write(*this);
  }

  static std::optional<TextColour> colour_of(std::int64_t bytes) {
    if (bytes == 0) return std::nullopt;
    return bytes > 0 ? TextColour::kMore : TextColour::kLess;
  }

  const DiffOptions& options_;
  const Comparison& comparison_;
  const StackNames& names_;
  const ViewNames view_names_;
};

// --- JSON ------------------------------------------------------------------------------------------------

void add_sums(Json& json, const Sums& sums, bool has_left) {
  json["bytes"] = sums.net_bytes();
  json["blocks"] = sums.net_blocks();
  json["bytes_before"] = sums.before.bytes;
  json["bytes_after"] = sums.after.bytes;
  json["blocks_before"] = sums.before.blocks;
  json["blocks_after"] = sums.after.blocks;
  json["new_bytes"] = sums.fresh.bytes;
  json["new_blocks"] = sums.fresh.blocks;
  json["freed_bytes"] = sums.freed().bytes;
  json["freed_blocks"] = sums.freed().blocks;
  if (!has_left) return;
  json["survivor_bytes"] = sums.left.bytes;
  json["survivor_blocks"] = sums.left.blocks;
}

Json json_of(const DiffOptions& options, const Comparison& comparison, const model::Profile& profile,
             const StackNames& names, const Findings& findings) {
  const Moments& moments = comparison.moments;
  const bool has_left = moments.survivors_ns.has_value();
  const auto side = [&](std::uint64_t at_ns, const std::string& text, const Held& live) {
    return Json{{"trace", options.trace.trace},
                {"program", profile.recording.program},
                {"selected", profile.selection_text.empty() ? Json(nullptr) : Json(profile.selection_text)},
                {"moment", text},
                {"at_ns", at_ns},
                {"live_bytes", live.bytes},
                {"live_blocks", live.blocks}};
  };
  Json json = json_document();
  json["before"] = side(moments.before.ns, moments.before_text, comparison.total.before);
  json["after"] = side(moments.after.ns, moments.after_text, comparison.total.after);
  json["survivors_ns"] = has_left ? Json(*moments.survivors_ns) : Json(nullptr);
  json["sort"] = options.order == DiffOptions::Order::kNet ? "net" : "new";
  add_sums(json["total"], comparison.total, has_left);
  const auto count = [&](std::size_t all) { return options.top == 0 ? all : std::min(options.top, all); };
  json["changed_sites"] = comparison.sites.size();
  const ViewNames view_names(profile, findings);
  Json& sites = json["sites"] = Json::array();
  for (std::size_t i = 0; i < count(comparison.sites.size()); ++i) {
    Json entry = name_json(view_names.of_frame(comparison.sites[i].frame, true));
    add_sums(entry, comparison.sites[i].sums, has_left);
    sites.push_back(std::move(entry));
  }
  json["changed_stacks"] = comparison.changed.size();
  Json& top = json["top"] = Json::array();
  for (std::size_t i = 0; i < count(comparison.changed.size()); ++i) {
    Json entry;
    add_sums(entry, comparison.by_node[comparison.changed[i]], has_left);
    const char* const truncated = profile.nodes[comparison.changed[i]].truncated;
    entry["truncated"] = truncated == nullptr ? Json(nullptr) : Json(truncated);
    entry["stack"] = stack_json(names, comparison.changed[i]);
    top.push_back(std::move(entry));
  }
  json["symbol_warnings"] = names.warnings();
  return json;
}

void print_moments(const DiffOptions& options, const TraceOptions& trace, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  Comparison comparison;
  comparison.moments = resolve_moments(options, analysis);
  comparison.by_node = sums_by_node(trace, analysis, comparison.moments);
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node) {
    comparison.total += comparison.by_node[node];
    if (comparison.by_node[node].changed()) comparison.changed.push_back(node);
  }
  rank_nodes(comparison.changed, comparison.by_node, options.order);
  StackNames names(profile, trace.symbols);
  std::vector<std::uint32_t> named = nodes_of_findings(profile);
  named.insert(named.end(), comparison.changed.begin(), comparison.changed.end());
  names.resolve(named);
  const Findings findings(profile, names, options.call_sites);
  comparison.sites = sites_of(findings, comparison.by_node, comparison.changed, options.order);
  if (options.trace.json)
    return write_output(options.trace.output, dump(json_of(options, comparison, profile, names, findings)));
  MomentsText text(options, comparison, profile, names, findings);
  text.write();
  write_output(options.trace.output, text.text());
}

}  // namespace

std::string signed_bytes(std::int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + human_bytes(static_cast<std::uint64_t>(std::llabs(bytes)));
}

int run_diff_moments(const DiffOptions& options) {
  TraceOptions trace;
  try {
    trace = options_of_slice(options);
  } catch (const std::invalid_argument& error) {
    print_message(error.what());
    return 2;
  }
  return run_on_trace(trace, [&](const replay::Analysis& analysis) { print_moments(options, trace, analysis); });
}

}  // namespace heapprof::cli
