// heapprof diff: two recordings of one program, what changed, and which stacks changed it. Stacks are the same when
// their functions have the same names from the innermost to the outermost: lines, addresses and build ids may differ,
// so two builds compare.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/cli/commands/trace_command.h"
#include "analyzer/render/flame_tree.h"
#include "analyzer/render/flamegraph.h"
#include "analyzer/render/text.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using render::exact_number;
using render::human_bytes;

enum class Format { kText, kSvg, kFolded };

struct DiffOptions {
  TraceOptions trace;
  Format format = Format::kText;
  std::string after;
  Cost cost = Cost::kPeak;
  std::size_t top = 10;
  std::size_t frames = 12;
};

struct Line {
  std::string function;  ///< or where it lies, when the name is unknown
  std::string place;     ///< file and line, or module
  std::string
      beside;  ///< what text says of the place, as reports do: nothing where `function` is a module and an offset
};

struct Figures {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// A stack that one of the two has, or both.
struct Pair {
  Figures before;
  Figures after;
  std::vector<Line> lines;  ///< of the later one that has it, innermost first
};

struct Side {
  std::string program;
  model::Costs totals;
  bool is_moment;        ///< its peak is the moment of --live-at
  std::string selected;  ///< "from 1.00 s to 2.00 s, --function parse"; empty: all
};

Side side_of(const model::Profile& profile) {
  std::string selected = profile.selected;
  if (profile.slice)
    selected = "from " + render::human_time(profile.begin_ns()) + " to " + render::human_time(profile.end_ns()) +
               (selected.empty() ? "" : ", ") + selected;
  return {profile.recording.program, profile.totals, profile.is_moment(), selected};
}

/// What was selected of the two, in words; slices given in percent, or beyond the end, differ.
std::string selected_of_both(const Side& before, const Side& after) {
  if (before.selected == after.selected) return after.selected;
  return before.selected + " before, " + after.selected + " after";
}

/// A cost as --cost names it, or "live" at the moment of --live-at.
std::string words_for(Cost cost, const Side& side) {
  if (cost == Cost::kPeak && side.is_moment) return "live";
  for (const auto& [name, value] : cost_names())
    if (value == cost) return name;
  return {};
}

using Pairs = std::map<std::string, Pair>;

constexpr char kAdded[] = "\x1b[31m";
constexpr char kSaved[] = "\x1b[32m";
constexpr char kBold[] = "\x1b[1m";

/// Adds a trace's stacks to the flame graph of both: frames are the same when function, module and file have the same
/// names, wherever those lie.
void draw(const DiffOptions& options, const replay::Analysis& analysis, bool before, Side& totals,
          render::FlameTree& tree) {
  const model::Profile& profile = analysis.profile();
  totals = side_of(profile);
  const std::vector<RankedStack> stacks = rank_stacks(profile, options.cost);
  std::vector<std::uint32_t> nodes;
  for (const RankedStack& stack : stacks) nodes.push_back(stack.node);
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes);
  for (const RankedStack& stack : stacks) {
    render::FlameTree::Node at = render::FlameTree::kRoot;
    if (const char* const cut = profile.nodes[stack.node].truncated; cut != nullptr)
      at = tree.child(at, tree.frame({.function = std::string("[stack cut: ") + cut + "]"}));
    const std::vector<Frame> frames = names.stack(stack.node);
    for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
      at = tree.child(at,
                      tree.frame({.function = frame->function.empty() ? unresolved_name(*frame) : frame->function,
                                  .module = frame->module == nullptr ? std::string() : base_name(frame->module->path),
                                  .file = base_name(frame->file),
                                  .inlined = frame->inlined}));
    const std::uint64_t value = ranks_by_blocks(options.cost) ? stack.blocks : stack.bytes;
    if (before) tree.add_before(at, value);
    else tree.add(at, value);
  }
}

/// Adds a trace's stacks to `pairs`.
void take(const DiffOptions& options, const replay::Analysis& analysis, Figures Pair::*side, Side& totals,
          Pairs& pairs) {
  const model::Profile& profile = analysis.profile();
  totals = side_of(profile);
  const std::vector<RankedStack> stacks = rank_stacks(profile, options.cost);
  std::vector<std::uint32_t> nodes;
  for (const RankedStack& stack : stacks) nodes.push_back(stack.node);
  StackNames names(profile, options.trace.symbols);
  names.resolve(nodes);
  for (const RankedStack& stack : stacks) {
    std::string key;
    std::vector<Line> lines;
    for (const Frame& frame : names.stack(stack.node)) {
      const std::string module = frame.module == nullptr ? std::string() : base_name(frame.module->path);
      Line line{frame.function.empty() ? unresolved_name(frame) : frame.function, module,
                frame.function.empty() || module.empty() ? "" : "in " + module};
      if (!frame.file.empty()) {
        line.beside = line.place = base_name(frame.file) + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
      }
      key += line.function + '\n';
      lines.push_back(std::move(line));
    }
    if (const char* const cut = profile.nodes[stack.node].truncated; cut != nullptr) {
      key += cut;
      lines.push_back({std::string("[stack cut: ") + cut + "]", "", ""});
    }
    Pair& pair = pairs[key];
    (pair.*side).bytes += stack.bytes;
    (pair.*side).blocks += stack.blocks;
    pair.lines = std::move(lines);
  }
}

std::int64_t change(std::uint64_t before, std::uint64_t after) noexcept {
  return static_cast<std::int64_t>(after - before);
}

std::string signed_bytes(std::int64_t bytes) {
  return (bytes < 0 ? "-" : "+") + human_bytes(static_cast<std::uint64_t>(std::llabs(bytes)));
}
std::string signed_number(std::int64_t number) {
  return (number < 0 ? "-" : "+") + exact_number(static_cast<std::uint64_t>(std::llabs(number)));
}

std::string right(const std::string& text, std::size_t width) {
  const std::size_t length = render::length_utf8(text);
  return std::string(length < width ? width - length : 0, ' ') + text;
}

std::string painted(bool colour, const char* code, const std::string& text) {
  return colour ? code + text + "\x1b[0m" : text;
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

std::string text_of(const DiffOptions& options, const Side& before, const Side& after,
                    const std::vector<const Pair*>& changed) {
  const TextStyle style = style_for(options.trace.output, options.frames);
  const bool colour = style.colour;
  const bool by_blocks = ranks_by_blocks(options.cost);
  constexpr std::size_t kIndent = 6, kGap = 2;
  const std::size_t function_width = (style.width - kIndent - kGap) * 62 / 100;
  const std::size_t place_width = style.width - kIndent - kGap - function_width;
  std::string names = "From " + options.trace.trace + " to " + options.after;
  if (render::length_utf8(names) > style.width) names = "From " + options.trace.trace + "\nto   " + options.after;
  std::string text = painted(colour, kBold, names) + "\n";
  if (const std::string selected = selected_of_both(before, after); !selected.empty())
    text += render::clip_utf8("only " + render::clean_utf8(selected), style.width) + "\n";
  text += "\n";
  text += "  " + std::string(12, ' ') + right("before", 12) + right("after", 12) + right("change", 12) + "\n";
  const auto row = [&](const char* name, std::uint64_t from, std::uint64_t to, bool bytes) {
    const std::int64_t by = change(from, to);
    std::string share;
    if (from != 0 && by != 0) {
      char number[32];
      std::snprintf(number, sizeof number, "%+.1f%%", static_cast<double>(by) / static_cast<double>(from) * 100);
      share = number;
    }
    const std::string moved = by == 0 ? "same" : bytes ? signed_bytes(by) : signed_number(by);
    text += "  " + std::string(name) + std::string(12 - std::string(name).size(), ' ') +
            right(bytes ? human_bytes(from) : exact_number(from), 12) +
            right(bytes ? human_bytes(to) : exact_number(to), 12) +
            painted(colour && by != 0, by > 0 ? kAdded : kSaved, right(moved, 12)) +
            (share.empty() ? "" : right(share, 12)) + "\n";
  };
  row(words_for(Cost::kPeak, after).c_str(), before.totals.peak_bytes, after.totals.peak_bytes, true);
  row("leaked", before.totals.leaked_bytes, after.totals.leaked_bytes, true);
  row("allocated", before.totals.allocated_bytes, after.totals.allocated_bytes, true);
  row("allocations", before.totals.allocations, after.totals.allocations, false);
  row("temporary", before.totals.temporary, after.totals.temporary, false);

  const std::size_t shown = options.top == 0 ? changed.size() : std::min(options.top, changed.size());
  const std::string cost = words_for(options.cost, after);
  text += "\n" + painted(colour, kBold, "Stacks by change of " + cost + " (" + std::to_string(shown) + " of " +
                                            exact_number(changed.size()) + " that changed)") + "\n";
  if (changed.empty()) text += "  none\n";
  for (std::size_t i = 0; i < shown; ++i) {
    const Pair& pair = *changed[i];
    const std::int64_t bytes = change(pair.before.bytes, pair.after.bytes);
    const std::int64_t blocks = change(pair.before.blocks, pair.after.blocks);
    const bool grew = by_blocks ? blocks > 0 : bytes > 0;
    text +=
        "\n" + right(std::to_string(i + 1), 3) + "  " +
        painted(colour, grew ? kAdded : kSaved, right(by_blocks ? signed_number(blocks) : signed_bytes(bytes), 10)) +
        "  " +
        render::clip_utf8(human_bytes(pair.before.bytes) + " in " + render::block_count(pair.before.blocks) +
                              " before, " + human_bytes(pair.after.bytes) + " in " +
                              render::block_count(pair.after.blocks) + " after",
                          style.width - 17) +
        "\n";
    const std::size_t lines = options.frames == 0 ? pair.lines.size() : std::min(options.frames, pair.lines.size());
    for (std::size_t k = 0; k < lines; ++k) {
      std::string function =
          render::clip_utf8(render::short_name(render::clean_utf8(pair.lines[k].function)), function_width);
      const std::string& beside = pair.lines[k].beside;
      if (!beside.empty()) function += std::string(function_width + kGap - render::length_utf8(function), ' ');
      text +=
          std::string(kIndent, ' ') + function + render::clip_utf8(render::clean_utf8(beside), place_width) + "\n";
    }
    if (const std::size_t more = pair.lines.size() - lines; more != 0)
      text += "      … " + std::to_string(more) + (more == 1 ? " more frame …\n" : " more frames …\n");
  }
  return plain_text(text, style.unicode);
}

Json totals_json(const std::string& trace, const Side& side) {
  return {{"trace", render::clean_utf8(trace)},
          {"program", render::clean_utf8(side.program)},
          {"selected", side.selected.empty() ? Json(nullptr) : Json(render::clean_utf8(side.selected))},
          {"peak_bytes", side.totals.peak_bytes},
          {"leaked_bytes", side.totals.leaked_bytes},
          {"allocated_bytes", side.totals.allocated_bytes},
          {"allocations", side.totals.allocations},
          {"temporary_allocations", side.totals.temporary}};
}

Json json_of(const DiffOptions& options, const Side& before, const Side& after,
             const std::vector<const Pair*>& changed) {
  Json json{{"before", totals_json(options.trace.trace, before)}, {"after", totals_json(options.after, after)}};
  json["changed_stacks"] = changed.size();
  Json& top = json["top"] = Json::array();
  const std::size_t shown = options.top == 0 ? changed.size() : std::min(options.top, changed.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Pair& pair = *changed[i];
    Json stack = Json::array();
    for (const Line& line : pair.lines)
      stack.push_back({{"function", render::clean_utf8(line.function)}, {"place", render::clean_utf8(line.place)}});
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
  if (options.format == Format::kFolded) {
    render::write_folded(tree, sink, true);
    return text;
  }
  const std::string cost = words_for(options.cost, after);
  const std::string program = base_name(after.program);
  render::FlameOptions flame;
  flame.title = "What changed in " + (program.empty() ? std::string("an unknown program") : program);
  flame.cost = std::string("change of ") + cost + (ranks_by_blocks(options.cost) ? "" : " bytes");
  flame.unit = ranks_by_blocks(options.cost) ? render::Unit::kCount : render::Unit::kBytes;
  flame.context = {{"From", options.trace.trace}, {"to", options.after}};
  if (base_name(before.program) != program) flame.context.push_back({"Program before", before.program});
  if (const std::string selected = selected_of_both(before, after); !selected.empty())
    flame.context.push_back({"Only", selected});
  flame.comparison = true;
  render::write_flamegraph_svg(tree, flame, sink);
  return text;
}

int diff_as_picture(const DiffOptions& options) {
  Side before{};
  Side after{};
  render::FlameTree tree;
  bool read = false;
  const int first = run_on_trace(options.trace, [&](const replay::Analysis& analysis) {
    draw(options, analysis, true, before, tree);
    read = true;
  });
  if (!read) return first;
  TraceOptions later = options.trace;
  later.trace = options.after;
  const int second = run_on_trace(later, [&](const replay::Analysis& analysis) {
    draw(options, analysis, false, after, tree);
    write_output(options.trace.output, picture_of(options, before, after, tree));
    if (tree.nodes().size() == 1 && !(before.totals.empty() && after.totals.empty()))
      complain("nothing to show: neither recording has a stack with this --cost");
  });
  return first != 0 ? first : second;
}

int diff(const DiffOptions& options) {
  Side before{};
  Side after{};
  Pairs pairs;
  const int first = run_on_trace(options.trace, [&](const replay::Analysis& analysis) {
    take(options, analysis, &Pair::before, before, pairs);
  });
  if (first != 0 && pairs.empty()) return first;
  TraceOptions later = options.trace;
  later.trace = options.after;
  const int second = run_on_trace(later, [&](const replay::Analysis& analysis) {
    take(options, analysis, &Pair::after, after, pairs);
    const std::vector<const Pair*> changed = ranked(pairs, ranks_by_blocks(options.cost));
    write_output(options.trace.output, options.trace.json ? dump(json_of(options, before, after, changed))
                                                          : text_of(options, before, after, changed));
  });
  return first != 0 ? first : second;
}

}  // namespace

void add_diff(CLI::App& app, int& status) {
  const auto options = std::make_shared<DiffOptions>();
  CLI::App* const command = app.add_subcommand("diff", "Compare two recordings: TRACE is before, AFTER is after");
  add_trace_options(*command, options->trace, {.json_by_name = false, .sole_argument = false});
  command
      ->add_option("AFTER", options->after,
                   "The later trace; stacks match by their functions' names, so builds may differ")
      ->required();
  command
      ->add_option("--top", options->top, "How many stacks; 0 is all")
      ->transform(whole_number())
      ->capture_default_str();
  command
      ->add_option("--frames", options->frames, "Lines a stack at most; 0 is all")
      ->transform(whole_number())
      ->capture_default_str();
  command->add_option("--cost", options->cost, "What is compared")
      ->transform(one_of(cost_names()))
      ->default_str("peak");
  const WordsFor<Format> formats = {{"text", Format::kText}, {"svg", Format::kSvg}, {"folded", Format::kFolded}};
  CLI::Option* const format =
      command
          ->add_option("--format", options->format,
                       "A ranking, a flame graph in red and blue, or folded text with two values; without it, as the "
                       "name of -o ends (.svg, .folded, .json)")
          ->transform(one_of(formats))
          ->default_str("text");
  command->callback([options, format, formats, &status] {
    if (!was_given(format) && ends_in(options->trace.output, ".json")) options->trace.json = true;
    if (!options->trace.json) take_format_from_name(format, options->trace.output, formats, options->format);
    if (options->format == Format::kSvg) refuse_terminal(options->trace.output, "an SVG picture", "diff.svg");
    if (options->format != Format::kText && options->trace.json)
      throw CLI::ValidationError("--json", "is another form of --format text");
    status = options->format == Format::kText ? diff(*options) : diff_as_picture(*options);
  });
}

}  // namespace heapprof::cli
