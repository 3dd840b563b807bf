// heapprof diff: the changes between two recordings, in total and by stack. Two stacks match if the names of their
// functions match. Lines, addresses and build ids may differ, so that different builds can be compared. With moments
// (TRACE@TIME) what is live at them is compared; diff_moments.cpp compares two moments of one recording.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>

#include "analyzer/base/shell_quote.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/compare/diff_moments.h"
#include "analyzer/cli/commands/compare/diff_processes.h"
#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/peak_moment.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/render/flame_tree.h"
#include "analyzer/render/flamegraph.h"
#include "analyzer/render/short_names.h"
#include "analyzer/render/text_sink.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using render::clean_utf8;
using render::clip_utf8;
using render::exact_number;
using render::human_bytes;
using render::pad_left;
using render::pad_right;

struct FrameLine {
  std::string function;  ///< or module and offset of an unresolved address
  std::string location;  ///< file and line, or module
  std::string beside;    ///< the location as text shows it: empty where `function` has the module
};

struct PairFigures {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// A stack of one recording, or matching stacks of both.
struct Pair {
  PairFigures before;
  PairFigures after;
  std::vector<FrameLine> lines;  ///< innermost first; of the later recording that has the stack
};

struct Side {
  std::string program;
  model::Costs totals;
  bool is_moment;                             ///< totals.peak_bytes are those at the moment of --live-at
  std::string selection_text;                 ///< "from 1.00 s to 2.00 s, --function parse"; empty: all
  std::optional<std::uint64_t> at_ns;         ///< the moment of TRACE@TIME; nullopt: neither recording has one
  std::string name;                           ///< of the recording, with its moment
  std::vector<std::size_t> unmatched_own;     ///< patterns of --own that match nothing in the recording
  std::optional<model::Together> together{};  ///< of several recordings
};

Side side_of(const DiffOptions& options, const std::string& trace, const model::Profile& profile) {
  std::string selection_text = profile.selection_text;
  if (options.has_moments()) {
    const std::uint64_t at_ns = profile.slice->to_ns;
    return {profile.recording.program,
            profile.totals,
            false,
            selection_text,
            at_ns,
            trace + " at " + render::human_time(at_ns),
            {}};
  }
  if (profile.slice)
    selection_text = "from " + render::human_time(profile.begin_ns()) + " to " +
                     render::human_time(profile.end_ns()) + (selection_text.empty() ? "" : ", ") + selection_text;
  return {profile.recording.program, profile.totals, profile.is_moment(), selection_text, std::nullopt, trace, {},
          profile.together};
}

/// The options to read one of the recordings. A moment is a slice with nothing but it, at whose end everything that
/// is live is counted.
TraceOptions options_of_side(const DiffOptions& options, const std::string& trace,
                             const std::optional<replay::Moment>& moment) {
  TraceOptions side = for_costs(options.trace);
  side.trace = trace;
  side.traces.clear();
  if (std::error_code ignored; std::filesystem::is_directory(trace, ignored)) side.traces = {trace};
  if (!options.has_moments()) return side;
  side.selection.from = moment.value_or(replay::Moment{.value = 100, .percent = true, .text = "end", .name = "@end"});
  side.selection.to = side.selection.from;
  return side;
}
TraceOptions options_before(const DiffOptions& options) {
  return options_of_side(options, options.trace.trace, options.moment_before);
}
TraceOptions options_after(const DiffOptions& options) {
  return options_of_side(options, options.after, options.moment_after);
}

/// The selection in words. The two differ if a slice was given in percent or ends after the recording.
std::string selection_of_both(const Side& before, const Side& after) {
  if (before.selection_text == after.selection_text) return after.selection_text;
  return before.selection_text + " before, " + after.selection_text + " after";
}

/// The cost as --cost names it; "live" for the peak at the moment of --live-at.
std::string words_for(Cost cost, const Side& side) {
  if (cost == Cost::kPeak && side.is_moment) return "live";
  for (const auto& [name, value] : cost_names())
    if (value == cost) return name;
  return {};
}

using Pairs = std::map<std::string, Pair>;

/// A pattern may match code of one of the recordings only.
void report_unmatched_own_code(const DiffOptions& options, const Side& before, const Side& after) {
  std::vector<std::size_t> unmatched;
  std::ranges::set_intersection(before.unmatched_own, after.unmatched_own, std::back_inserter(unmatched));
  report_unmatched_own_code(unmatched, options.call_sites, "both recordings");
}

/// Calls visit(stack, frames) for the stacks that have the cost, largest first. Sets side.unmatched_own.
template <typename Visit>
void for_each_stack(const DiffOptions& options, const model::Profile& profile, Side& side, Visit&& visit) {
  const std::vector<RankedStack> stacks = rank_stacks(profile, options.cost);
  StackNames names(profile, options.trace.symbols);
  names.resolve(options.call_sites.own.empty() ? nodes_of(stacks) : nodes_with_costs(profile));
  side.unmatched_own = unmatched_own_code(profile, names, options.call_sites);
  const FrameFilter filter(profile, options.call_sites);
  for (const RankedStack& stack : stacks) {
    std::vector<Frame> frames = names.stack(stack.node);
    const bool has_frames = !frames.empty();
    frames = filter.shown(std::move(frames));
    if (has_frames && frames.empty()) frames.push_back(text_frame(kNoOwnCode));
    visit(stack, frames);
  }
}

/// Adds a recording's stacks to the flame graph of both. Frames match if function, module and file have the same
/// names, whatever their directories.
void draw(const DiffOptions& options, const model::Profile& profile, bool before, Side& totals,
          render::FlameTree& tree) {
  totals = side_of(options, before ? options.trace.trace : options.after, profile);
  for_each_stack(options, profile, totals, [&](const RankedStack& stack, const std::vector<Frame>& frames) {
    render::FlameTree::Node at = render::FlameTree::kRoot;
    if (const char* const reason = profile.nodes[stack.node].truncated; reason != nullptr)
      at = tree.child(at, tree.frame({.function = truncation_frame(reason)}));
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
      at = tree.child(at,
                      tree.frame({.function = name_in_flame_graph(*frame),
                                  .module = frame->module == nullptr ? std::string() : base_name(frame->module->path),
                                  .file = base_name(frame->file),
                                  .inlined = frame->inlined}));
    const std::uint64_t value = ranks_by_blocks(options.cost) ? stack.blocks : stack.bytes;
    if (before) tree.add_before(at, value);
    else tree.add(at, value);
  });
}

/// Adds a recording's stacks to `pairs`.
void add_recording(const DiffOptions& options, const model::Profile& profile, PairFigures Pair::*side, Side& totals,
                   Pairs& pairs) {
  totals = side_of(options, side == &Pair::before ? options.trace.trace : options.after, profile);
  for_each_stack(options, profile, totals, [&](const RankedStack& stack, const std::vector<Frame>& frames) {
    std::string key;
    std::vector<FrameLine> lines;
    for (const Frame& frame : frames) {
      const std::string module = frame.module == nullptr ? std::string() : base_name(frame.module->path);
      FrameLine line{frame.function.empty() ? unresolved_name(frame) : frame.function, module,
                     frame.function.empty() || module.empty() ? "" : "in " + module};
      if (!frame.file.empty())
        line.beside = line.location =
            base_name(frame.file) + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
      key += line.function + '\n';
      lines.push_back(std::move(line));
    }
    if (const char* const reason = profile.nodes[stack.node].truncated; reason != nullptr) {
      key += reason;
      lines.push_back({truncation_frame(reason), "", ""});
    }
    Pair& pair = pairs[key];
    (pair.*side).bytes += stack.bytes;
    (pair.*side).blocks += stack.blocks;
    pair.lines = std::move(lines);
  });
}

std::int64_t change(std::uint64_t before, std::uint64_t after) noexcept {
  return static_cast<std::int64_t>(after - before);
}

std::string signed_number(std::int64_t number) {
  return (number < 0 ? "-" : "+") + exact_number(static_cast<std::uint64_t>(std::llabs(number)));
}

/// The pairs that changed, the largest change first; equal ones by name.
std::vector<const Pair*> ranked(const Pairs& pairs, bool by_blocks) {
  std::vector<const Pair*> result;
  for (const auto& [key, pair] : pairs)
    if (pair.before.bytes != pair.after.bytes || pair.before.blocks != pair.after.blocks) result.push_back(&pair);
  const auto size = [by_blocks](const Pair* pair) {
    return by_blocks ? std::llabs(change(pair->before.blocks, pair->after.blocks))
                     : std::llabs(change(pair->before.bytes, pair->after.bytes));
  };
  std::stable_sort(result.begin(), result.end(), [&](const Pair* a, const Pair* b) { return size(a) > size(b); });
  return result;
}

/// "+12.5%"; empty: it did not change, or there was nothing before.
std::string signed_percent(std::uint64_t before, std::uint64_t after) {
  if (before == 0 || before == after) return {};
  char text[32];
  std::snprintf(text, sizeof text, "%+.1f%%",
                static_cast<double>(change(before, after)) / static_cast<double>(before) * 100);
  return text;
}

TextColour colour_of(std::int64_t by) { return by > 0 ? TextColour::kMore : TextColour::kLess; }

void append_totals(TextPage& text, const Side& before, const Side& after) {
  constexpr std::size_t kColumn = 12;
  text.line("  " + std::string(kColumn, ' ') + pad_left("before", kColumn) + pad_left("after", kColumn) +
            pad_left("change", kColumn));
  const auto row = [&](const std::string& name, std::uint64_t from, std::uint64_t to, bool bytes) {
    const std::int64_t by = change(from, to);
    const std::string changed = pad_left(by == 0 ? "same" : bytes ? signed_bytes(by) : signed_number(by), kColumn);
    const std::string share = signed_percent(from, to);
    text.line("  " + pad_right(name, kColumn) + pad_left(bytes ? human_bytes(from) : exact_number(from), kColumn) +
              pad_left(bytes ? human_bytes(to) : exact_number(to), kColumn) +
              (by == 0 ? changed : text.paint(colour_of(by), changed)) +
              (share.empty() ? "" : pad_left(share, kColumn)));
  };
  if (after.at_ns) {
    row("live", before.totals.live_bytes, after.totals.live_bytes, true);
    row("blocks", before.totals.live_blocks, after.totals.live_blocks, false);
    return;
  }
  row(words_for(Cost::kPeak, after), before.totals.peak_bytes, after.totals.peak_bytes, true);
  row("leaked", before.totals.leaked_bytes, after.totals.leaked_bytes, true);
  row("allocated", before.totals.allocated_bytes, after.totals.allocated_bytes, true);
  row("allocations", before.totals.allocations, after.totals.allocations, false);
  row("temporary", before.totals.temporary, after.totals.temporary, false);
}

void append_frames(TextPage& text, const Pair& pair) {
  constexpr std::size_t kIndent = 6, kGap = 2;
  const TextStyle& style = text.style();
  const std::size_t function_width = (style.width - kIndent - kGap) * 62 / 100;
  const std::size_t location_width = style.width - kIndent - kGap - function_width;
  const std::size_t lines = style.frames == 0 ? pair.lines.size() : std::min(style.frames, pair.lines.size());
  for (std::size_t i = 0; i < lines; ++i) {
    const FrameLine& line = pair.lines[i];
    std::string function = clean_utf8(line.function);
    if (!style.full_names) function = clip_utf8(render::without_arguments(function), function_width);
    if (!line.beside.empty())
      function = pad_right(function, std::max(function_width, render::length_utf8(function)) + kGap);
    text.line(std::string(kIndent, ' ') + function + clip_utf8(clean_utf8(line.beside), location_width));
  }
  if (const std::size_t more = pair.lines.size() - lines; more != 0)
    text.line("      … " + std::to_string(more) + (more == 1 ? " more frame …" : " more frames …"));
}

void append_next_commands(TextPage& text, const DiffOptions& options) {
  NextCommands next(options.trace);
  if (options.has_moments()) {
    if (const auto& moment = options.moment_after; moment && !moment->text.empty())
      next.add_words("Call sites of the later moment",
                     "report AFTER --by site --cost live --live-at " + shell_quoted(moment->text));
  } else {
    const std::string cost = cost_words(options.cost);
    next.add_words("Call sites of the later recording",
                   std::string("report AFTER --by site") + (cost.empty() ? "" : " ") + cost)
        .add_words("As a flame graph",
                   std::string("diff BEFORE AFTER") + (cost.empty() ? "" : " ") + cost + " -o diff.svg");
  }
  next.write(text);
}

std::string text_of(const DiffOptions& options, const Side& before, const Side& after,
                    const std::vector<const Pair*>& changed) {
  TextPage text(style_for(options.trace.output, options.call_sites.view, options.frames));
  const std::size_t width = text.style().width;
  const bool by_blocks = ranks_by_blocks(options.cost);
  const std::string title = "From " + before.name + " to " + after.name;
  if (render::length_utf8(title) <= width) text.line(text.bold(title));
  else text.line(text.bold("From " + before.name)).line(text.bold("to   " + after.name));
  if (const std::string first = base_name(before.program), second = base_name(after.program); first != second)
    text.line(
        text.clip("The programs differ: " + clean_utf8(first) + " before, " + clean_utf8(second) + " after", width));
  if (const std::string selection = selection_of_both(before, after); !selection.empty())
    text.line(clip_utf8("only " + clean_utf8(selection), width));
  if (!used_project_file.empty()) text.line(clip_utf8(clean_utf8(project_file_words()), width));
  text.line();
  append_totals(text, before, after);
  if (before.together && after.together) write_process_changes(text, *before.together, *after.together, options.top);

  const std::size_t shown = options.top == 0 ? changed.size() : std::min(options.top, changed.size());
  text.heading("Stacks by change in " + words_for(options.cost, after) + " (" + std::to_string(shown) + " of " +
               exact_number(changed.size()) + " changed stacks)");
  if (changed.empty()) text.line("  none");
  for (std::size_t i = 0; i < shown; ++i) {
    const Pair& pair = *changed[i];
    const std::int64_t bytes = change(pair.before.bytes, pair.after.bytes);
    const std::int64_t blocks = change(pair.before.blocks, pair.after.blocks);
    const std::string figure = pad_left(by_blocks ? signed_number(blocks) : signed_bytes(bytes), 10);
    const std::string both = human_bytes(pair.before.bytes) + " in " + render::block_count(pair.before.blocks) +
                             " before, " + human_bytes(pair.after.bytes) + " in " +
                             render::block_count(pair.after.blocks) + " after";
    text.line();
    text.line(pad_left(std::to_string(i + 1), 3) + "  " + text.paint(colour_of(by_blocks ? blocks : bytes), figure) +
              "  " + clip_utf8(both, width - 17));
    append_frames(text, pair);
  }
  append_next_commands(text, options);
  return text.text();
}

Json totals_json(const std::string& trace, const Side& side) {
  if (side.at_ns)
    return {{"trace", clean_utf8(trace)},
            {"program", clean_utf8(side.program)},
            {"selected", side.selection_text.empty() ? Json(nullptr) : Json(clean_utf8(side.selection_text))},
            {"at_ns", *side.at_ns},
            {"live_bytes", side.totals.live_bytes},
            {"live_blocks", side.totals.live_blocks}};
  return {{"trace", clean_utf8(trace)},
          {"program", clean_utf8(side.program)},
          {"selected", side.selection_text.empty() ? Json(nullptr) : Json(clean_utf8(side.selection_text))},
          {"peak_bytes", side.totals.peak_bytes},
          {"leaked_bytes", side.totals.leaked_bytes},
          {"allocated_bytes", side.totals.allocated_bytes},
          {"allocations", side.totals.allocations},
          {"temporary_allocations", side.totals.temporary}};
}

Json json_of(const DiffOptions& options, const Side& before, const Side& after,
             const std::vector<const Pair*>& changed) {
  Json json = json_document();
  json["before"] = totals_json(options.trace.trace, before);
  json["after"] = totals_json(options.after, after);
  if (before.together && after.together) json["processes"] = process_changes_json(*before.together, *after.together);
  json["changed_stacks"] = changed.size();
  Json& top = json["top"] = Json::array();
  const std::size_t shown = options.top == 0 ? changed.size() : std::min(options.top, changed.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Pair& pair = *changed[i];
    Json stack = Json::array();
    for (const FrameLine& line : pair.lines)
      stack.push_back({{"function", clean_utf8(line.function)},
                       {"location", clean_utf8(line.location)},
                       {"place", clean_utf8(line.location)}});  // old name, for one release
    top.push_back({{"bytes", change(pair.before.bytes, pair.after.bytes)},
                   {"blocks", change(pair.before.blocks, pair.after.blocks)},
                   {"bytes_before", pair.before.bytes},
                   {"bytes_after", pair.after.bytes},
                   {"blocks_before", pair.before.blocks},
                   {"blocks_after", pair.after.blocks},
                   {"stack", std::move(stack)}});
  }
  return json;
}

std::string picture_of(const DiffOptions& options, const Side& before, const Side& after,
                       const render::FlameTree& tree) {
  std::string text;
  const render::TextSink sink = [&](std::string_view piece) { text += piece; };
  if (options.format == DiffOptions::Format::kFolded) {
    render::write_folded(tree, sink, true);
    return text;
  }
  const std::string cost = words_for(options.cost, after);
  const std::string program = after.together ? render::clean_utf8(after.name) : base_name(after.program);
  render::FlameOptions flame;
  flame.title = "Changes in " + (program.empty() ? std::string("an unknown program") : program);
  flame.cost = std::string("change in ") + cost + (ranks_by_blocks(options.cost) ? "" : " bytes");
  flame.unit = ranks_by_blocks(options.cost) ? render::Unit::kCount : render::Unit::kBytes;
  flame.context = {{"From", before.name}, {"to", after.name}};
  if (base_name(before.program) != base_name(after.program))
    flame.context.push_back({"Program before", before.program});
  if (const std::string selection = selection_of_both(before, after); !selection.empty())
    flame.context.push_back({"Only", selection});
  flame.comparison = true;
  render::write_flamegraph_svg(tree, flame, sink);
  return text;
}

int diff_as_picture(const DiffOptions& options) {
  Side before{};
  Side after{};
  render::FlameTree tree;
  bool read = false;
  const int first = run_on_profile(options_before(options), [&](const model::Profile& profile) {
    draw(options, profile, true, before, tree);
    read = true;
  });
  if (!read) return first;
  const int second = run_on_profile(options_after(options), [&](const model::Profile& profile) {
    draw(options, profile, false, after, tree);
    if (options.two_moments && *before.at_ns > *after.at_ns)
      throw replay::SelectionError(options.trace.trace +
                                   ": the first moment is after the second one; give the earlier "
                                   "moment first");
    report_unmatched_own_code(options, before, after);
    write_output(options.trace.output, picture_of(options, before, after, tree));
    if (tree.nodes().size() == 1 && !(before.totals.empty() && after.totals.empty()))
      print_message("nothing to show: neither recording has a stack with this --cost");
  });
  return first != 0 ? first : second;
}

int diff_as_text(const DiffOptions& options) {
  Side before{};
  Side after{};
  Pairs pairs;
  bool is_read = false;
  const int first = run_on_profile(options_before(options), [&](const model::Profile& profile) {
    add_recording(options, profile, &Pair::before, before, pairs);
    is_read = true;
  });
  if (!is_read) return first;
  const int second = run_on_profile(options_after(options), [&](const model::Profile& profile) {
    add_recording(options, profile, &Pair::after, after, pairs);
    report_unmatched_own_code(options, before, after);
    const std::vector<const Pair*> changed = ranked(pairs, ranks_by_blocks(options.cost));
    write_output(options.trace.output, options.trace.json ? dump(json_of(options, before, after, changed))
                                                          : text_of(options, before, after, changed));
  });
  return first != 0 ? first : second;
}

}  // namespace

int run_diff(const DiffOptions& given) {
  return guarded(given.trace.trace, [&] {
    DiffOptions options = given;
    if (options.has_moments()) options.cost = Cost::kLive;
    resolve_peak(options.trace, options.moment_before);
    TraceOptions after = options.trace;
    after.trace = options.after;
    resolve_peak(after, options.moment_after);
    if (options.format != DiffOptions::Format::kText) return diff_as_picture(options);
    return options.two_moments ? run_diff_moments(options) : diff_as_text(options);
  });
}

}  // namespace heapprof::cli
