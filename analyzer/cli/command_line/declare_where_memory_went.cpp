// Declares the commands under "See where memory went".
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/options/selection.h"
#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/render/units.h"
#include "analyzer/views/block_page.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {
namespace {

constexpr const char* kWhere = "See where memory went";

/// --history and --no-history of `report`.
void add_history(CLI::App& command, std::optional<bool>& history) {
  command.add_flag_callback(
      "--history", [&history] { history = true; },
      "Read traces of more than " + render::exact_number(kMaxEventsWithHistory / 1'000'000) +
          " million events twice, too, to print live bytes over time");
  command.add_flag_callback(
      "--no-history", [&history] { history = false; }, "Read the trace only once; print no live bytes over time");
}

/// The words of --columns.
std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// --by of `report`, and the options that belong to it.
void add_rows(CLI::App& command, ReportOptions& options) {
  constexpr const char* kGroup = "Rows";
  using views::By;
  static constexpr std::pair<const char*, By> kWords[] = {
      {"function", By::kFunction}, {"line", By::kLine},     {"site", By::kSite},      {"stack", By::kStack},
      {"module", By::kModule},     {"thread", By::kThread}, {"process", By::kProcess}};
  add_value(command, "--by", "KEY",
            "Print one row for each function, line, site, stack, module or thread, or of several recordings for each "
            "process: what it costs itself, and in total; "
            "the table ends where a row has less than 0.5% of the column by which it is sorted, unless --top is 0",
            [&options](const std::string& text) {
              options.rows.by.reset();
              for (const auto& [word, by] : kWords)
                if (text == word) options.rows.by = by;
              if (!options.rows.by)
                refuse_value(text, "--by", "function, line, site, stack, module, thread or process");
            })
      ->group(kGroup);
  add_text(command, "--sort", options.rows.sort, "COLUMN", "Sort the rows by this column, largest first")
      ->default_str(options.rows.sort)
      ->group(kGroup);
  add_value(command, "--columns", "COLUMN,...",
            "Print these columns: peak, peak-blocks, leaked, leaked-blocks, allocated, allocations, temporary-bytes, "
            "temporary, live, live-blocks, or total- before one of these; self and total are those of --cost; "
            "over-time: live bytes over the recording, of the row itself",
            [&options](const std::string& text) {
              options.rows.columns = split_at_commas(text);
              options.rows.over_time = std::erase(options.rows.columns, kOverTime) != 0;
            })
      ->group(kGroup);
  add_switch(command, "--csv", options.rows.csv, "Write the rows as CSV")->group(kGroup);
}

void check_rows(const ReportOptions& options) {
  const RowOptions& rows = options.rows;
  if (!rows.by) {
    if (rows.csv || rows.over_time || !rows.columns.empty() || rows.sort != RowOptions().sort)
      refuse("--sort, --columns and --csv are options of rows; add --by function, or another KEY");
    return;
  }
  if (rows.csv && options.trace.json) refuse("--csv and --json exclude each other");
  if (*rows.by == views::By::kThread) refuse_mappings(options.trace, "report --by thread");
  if (rows.over_time) refuse_mappings(options.trace, "report --columns over-time");
  if (rows.sort == kOverTime) refuse("--sort: over-time is no figure; sort by live, or another column of figures");
  const auto check = [&](const std::string& name, const char* option) {
    try {
      column_named(name, options.cost, option);
    } catch (const std::invalid_argument& error) {
      std::vector<std::string> names = column_names();
      names.emplace_back(kOverTime);
      refuse(error.what() + did_you_mean(name, names));
    }
  };
  check(rows.sort, "--sort");
  for (const std::string& name : rows.columns) check(name, "--columns");
}

/// Refuses what cannot be said of several recordings.
void check_several_traces(ReportOptions& options) {
  if (options.trace.traces.empty()) {
    if (options.rows.by == views::By::kProcess)
      refuse("--by process is for several recordings: heapprof report DIRECTORY");
    return;
  }
  if (!options.rows.by) options.rows.by = views::By::kSite;
  refuse_for_several(options.trace, options.rows.by == views::By::kThread, "--by thread", "");
  refuse_for_several(options.trace, options.rows.over_time, "--columns over-time", "heapprof timeline");
}

}  // namespace

void declare_report(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App& command =
      add_command(app, kWhere, "report", "Print totals, and the call sites and stacks that use the most memory");
  add_trace_options(command, options->trace, {.several = true});
  add_cost(command, options->cost, "Rank call sites and stacks by this cost");
  add_rows(command, *options);  // the groups of a command of its own precede those that it shares
  add_call_site_options(command, options->call_sites);
  add_top(command, options->top,
          "call sites, without the last ones that have less than 1% each, or stacks with --json");
  add_stacks(command, options->stacks);
  add_frames(command, options->frames);
  add_history(command, options->history);
  add_shared_frames(command, options->shared_frames);
  const CLI::Option* const top = command.get_option("--top");
  choose(command, chosen, options, [top](ReportOptions& read) {
    if (read.rows.by && ends_in(read.trace.output, ".csv")) read.rows.csv = true;
    check_several_traces(read);
    check_rows(read);
    // A program that reads the rows needs all of them, unless it asks for fewer.
    if (read.rows.by && (read.trace.json || read.rows.csv) && !was_given(top)) read.top = 0;
  });
}

namespace {

/// --by of trees and callers.
void add_by_line(CLI::App& command, bool& by_line) {
  add_word<bool>(command, "--by", by_line, {{"function", false}, {"line", true}},
                 "Show functions, or source lines of functions");
}

}  // namespace

void declare_tree(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<TreeOptions>();
  CLI::App& command =
      add_command(app, kWhere, "tree", "Print the call tree, with what each function costs itself and in total");
  add_trace_options(command, options->trace, {.several = true});
  add_cost(command, options->cost, "Sort and limit the tree by this cost");
  add_by_line(command, options->by_line);
  add_switch(command, "--inverted", options->inverted, "Begin with the call sites; their callers follow");
  add_number(command, "--depth", options->depth, "Print at most N levels; 0: all");
  add_value(command, "--min-share", "PERCENT", "Leave out what has less than PERCENT of the total",
            [options](const std::string& text) {
              if (!read_decimal(text.ends_with('%') ? text.substr(0, text.size() - 1) : text,
                                options->min_share_percent, 0, 100))
                refuse_value(text, "--min-share", "a percentage from 0 to 100");
            })
      ->default_str("1");
  add_call_site_options(command, options->call_sites);
  command.footer(
      "The frames below call sites (allocation functions, helpers, standard libraries) are not part of the tree: "
      "what "
      "they allocate is the cost of the call site itself. What is left out is counted at its caller, as '+N more'.");
  choose(command, chosen, options);
}

void declare_callers(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<CallersOptions>();
  CLI::App& command = add_command(app, kWhere, "callers", "Print who calls a function, and what it calls");
  add_trace_options(command, options->trace, {.sole_argument = false, .several = true});
  add_text(command, "FUNCTION", options->function, "FUNCTION",
           "Print this function, named as in a report, with or without arguments and scopes; functions of one name "
           "count as one")
      ->required();
  add_cost(command, options->cost, "Rank callers and callees by this cost");
  add_by_line(command, options->by_line);
  add_top(command, options->top, "callers, and callees");
  add_call_site_options(command, options->call_sites);
  choose(command, chosen, options);
}

void declare_blocks(CLI::App& app, Chosen& chosen) {
  using views::BlockOrder;
  const auto options = std::make_shared<BlocksOptions>();
  CLI::App& command = add_command(app, kWhere, "blocks",
                                  "List the blocks that are live at the end or at --live-at: address, size, age, "
                                  "thread, call site");
  add_trace_options(command, options->trace);
  add_word<BlockOrder>(command, "--sort", options->order,
                       {{"size", BlockOrder::kSize}, {"age", BlockOrder::kAge}, {"address", BlockOrder::kAddress}},
                       "List the largest blocks first, the oldest first, or all by address");
  add_word<bool>(command, "--cost", options->trace.at_own_peak, {{"leaked", false}, {"peak", true}},
                 "List what is left at the end, or what is live at the peak of the selection");
  add_top(command, options->top, "blocks");
  add_number(command, "--skip", options->skip, "Leave out the first N blocks of the list");
  add_switch(command, "--csv", options->csv, "Write the list as CSV");
  add_number(command, "--stacks", options->stacks, "Print at most N stacks of the listed blocks; 0: all");
  add_frames(command, options->frames);
  add_call_site_options(command, options->call_sites);
  command.footer(
      "Without --live-at, these are the blocks that were never freed; in a slice, those that were allocated in it "
      "and are live at its end. With --live-at, blocks from before the slice are listed, too. --cost peak lists the "
      "blocks that are live when most bytes are live in the slice, of threads, functions and sizes that are "
      "selected; --live-at peak, those at the peak of the whole recording. JSON and CSV have all "
      "blocks unless --top is given. Call sites are found from the live blocks alone. The time at which a mapping "
      "was made is not kept, so mappings have no age.");
  const CLI::Option* const top = command.get_option("--top");
  choose(command, chosen, options, [top](BlocksOptions& read) {
    if (ends_in(read.trace.output, ".csv")) read.csv = true;
    if (read.csv && read.trace.json) refuse("--csv and --json exclude each other");
    if (read.trace.at_own_peak && read.trace.selection.kind != model::Kind::kHeap)
      refuse("--cost peak lists blocks of the heap only; use --cost leaked, or --kind heap");
    if ((read.trace.json || read.csv) && !was_given(top)) read.top = 0;
  });
}

void declare_source(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<SourceOptions>();
  CLI::App& command =
      add_command(app, kWhere, "source", "Print the lines of a source file or function, with what each costs");
  add_trace_options(command, options->trace, {.sole_argument = false, .several = true});
  add_text(
      command, "NAME", options->what, "NAME",
      "Print this file, named by any last part of its path; FILE:LINE: the lines around one; or the lines of this "
      "function, named as in a report; by default, list the files that have costs");
  add_cost(command, options->cost, "Print this cost of each line");
  add_number(command, "--context", options->context, "Print N lines before and after each line that has costs");
  add_switch(command, "--all", options->all_lines, "Print the whole file");
  add_top(command, options->top, "files, if none is named");
  add_source_paths(command, options->source_paths);
  add_call_site_options(command, options->call_sites);
  command.footer(
      "'self' is what was allocated by a line whose function is the call site; 'total' is that, and what was "
      "allocated in the functions that the line calls. The text comes from --source-path, from the bundle, or from "
      "where the debug information says that the file is. Without the file, the lines that have costs are printed.");
  const CLI::Option* const top = command.get_option("--top");
  choose(command, chosen, options, [top](SourceOptions& read) {
    if (read.trace.json && !was_given(top)) read.top = 0;
  });
}

void declare_flamegraph(CLI::App& app, Chosen& chosen) {
  using Format = FlamegraphOptions::Format;
  const auto options = std::make_shared<FlamegraphOptions>();
  CLI::App& command =
      add_command(app, kWhere, "flamegraph", "Draw all stacks: an SVG for any browser, or folded text");
  add_trace_options(command, options->trace, {.json = false, .several = true});
  std::vector<std::string> costs;
  for (const auto& [name, cost] : cost_names()) costs.push_back(name);
  costs.emplace_back("pinned");
  add_choice(command, "--cost", costs, 0,
             "Draw each frame as wide as its share of this cost; pinned: of the memory that could not be returned to "
             "the system because of the blocks allocated in and below it, at --at",
             [options](std::size_t position) {
               options->pinned = position == cost_names().size();
               if (!options->pinned) options->cost = cost_names()[position].second;
             });
  const WordsFor<Format> formats = {{"svg", Format::kSvg}, {"folded", Format::kFolded}};
  const CLI::Option* const format =
      add_format(command, options->format, formats, "Write a picture, or a line of text for each stack");
  add_switch(command, "--bottom-up", options->bottom_up,
             "Begin with the functions that allocate; their callers follow");
  add_own_code_options(command, options->call_sites);
  add_full_names(
      command, options->call_sites,
      "Label the frames of the picture with parameters and template arguments; folded text always has them");
  choose(command, chosen, options, [format, formats](FlamegraphOptions& read) {
    take_format_from_name(format, read.trace.output, formats, read.format, {{".txt", Format::kFolded}});
    refuse_for_several(read.trace, read.pinned, "--cost pinned", "");
    if (read.pinned) {
      // The moment is all that can be selected: it is the end of the slice.
      SelectionTexts& texts = read.trace.texts;
      read.has_moment = !texts.live_at.empty() && texts.to.empty();
      if (read.has_moment) texts.to = std::exchange(texts.live_at, {});
      refuse_selected_blocks(read.trace, "--cost pinned");
      if (read.bottom_up)
        refuse("--bottom-up and --cost pinned exclude each other: pinned memory adds up for callers only");
    }
    if (read.format == Format::kSvg) refuse_terminal(read.trace.output, "an SVG picture", "flamegraph.svg");
  });
}

void declare_pins(CLI::App& app, Chosen& chosen) {
  using By = PinsOptions::By;
  const auto options = std::make_shared<PinsOptions>();
  CLI::App& command = add_command(
      app, kWhere, "pins",
      "Print the call sites whose live blocks fragment the heap: memory cannot be returned to the system because of "
      "them");
  add_trace_options(command, options->trace, {.selection = false});
  add_value(
      command, "--at,--live-at", "TIME",
      "Print what is pinned at TIME: seconds since the start, with a unit (300ms), a percentage of the recording "
      "(40%), start, peak, end, or the text of a mark; the default is the end",
      [options](const std::string& text) {
        if (!parse_moment_or_mark(text)) refuse_value(text, "--at", kMomentOrMarkExamples);
        options->trace.texts.to = text;
      });
  add_word<By>(command, "--by", options->by,
               {{"stack", By::kStack}, {"function", By::kFunction}, {"site", By::kSite}},
               "Group by stack, by the function of the call site, or by its function and line; groups are formed "
               "before the figures are computed");
  add_call_site_options(command, options->call_sites);
  add_top(command, options->top, "groups");
  add_stacks(command, options->stacks);
  add_frames(command, options->frames);
  command.footer(
      "Allocators return memory in pages, slabs or spans, and one live block keeps all of its own. A group is ranked "
      "by its overhead: what it keeps alone, and its part of what it keeps together with others, less the bytes of "
      "its live blocks: the fragmentation that it causes. The table ends where a group has less than 0.5 % of the "
      "overhead, unless --top is 0. In a compacted trace TIME means the nearest snapshot, at most 10 ms or 0.5 % of "
      "TIME away.");
  choose(command, chosen, options);
}

void declare_rss(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<RssOptions>();
  CLI::App& command = add_command(app, kWhere, "rss", "Print what resident memory (RSS) consists of, line by line");
  add_trace_options(command, options->trace, {.selection = false});
  add_value(
      command, "--at,--live-at", "TIME",
      "Print resident memory at TIME: seconds since the start, with a unit (300ms), a percentage of the "
      "recording (40%), start, peak, end, or the text of a mark; by default, at the end. If a snapshot is at most "
      "10 ms or 0.5% of TIME away, it is printed, else an estimate",
      [options](const std::string& text) {
        if (!parse_moment_or_mark(text)) refuse_value(text, "--at", kMomentOrMarkExamples);
        options->at = text;
      });
  add_call_site_options(command, options->call_sites);
  add_top(command, options->top, "mappings and files of a line");
  add_stacks(command, options->stacks);
  add_frames(command, options->frames);
  command.footer(
      "A recording has snapshots of the resident pages: at marks, at the end, when resident memory changes by 10%, "
      "and on request (heapprof control TRACE snapshot). At a snapshot, every resident page is in exactly one line; "
      "fragmentation is in 'holes' and 'held back'. Between snapshots, and at the end of a program that was killed "
      "or still runs, the lines are estimated. The list of snapshots has the 8 largest, the last and the one shown.");
  choose(command, chosen, options);
}

void declare_histogram(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<HistogramOptions>();
  CLI::App& command = add_command(app, kWhere, "histogram", "Print the distribution of block sizes and lifetimes");
  add_trace_options(command, options->trace);
  choose_without_mappings(command, chosen, options);
}

void declare_churn(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ChurnOptions>();
  CLI::App& command = add_command(app, kWhere, "churn", "Print short-lived and temporary allocations by call site");
  add_trace_options(command, options->trace);
  add_call_site_options(command, options->call_sites);
  add_value(command, "--within", "TIME", "Count a block as short-lived when it is freed within TIME (20us, 5ms, 1s)",
            [options](const std::string& text) {
              const auto within = parse_duration_ns(text);
              if (!within) refuse_value(text, "--within", kDurationExamples);
              options->within_ns = *within;
            })
      ->default_str("1ms");
  add_top(command, options->top, "call sites");
  choose_without_mappings(command, chosen, options);
}

void declare_reallocs(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ReallocsOptions>();
  CLI::App& command =
      add_command(app, kWhere, "reallocs", "Print buffers that grow by realloc, and the bytes that it copies");
  add_trace_options(command, options->trace);
  add_call_site_options(command, options->call_sites);
  add_top(command, options->top, "call sites");
  command.footer(
      "In the table, max/buffer is the highest number of realloc calls for one buffer, and first-last size is the "
      "size of that buffer before the first and after the last of these calls.");
  choose_without_mappings(command, chosen, options);
}

void declare_threads(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ThreadsOptions>();
  CLI::App& command = add_command(app, kWhere, "threads", "Print what each thread allocates, and cross-thread frees");
  add_trace_options(command, options->trace);
  add_call_site_options(command, options->call_sites);
  add_top(command, options->top, "pairs of threads and call sites");
  choose_without_mappings(command, chosen, options);
}

void declare_frees(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<FreesOptions>();
  CLI::App& command =
      add_command(app, kWhere, "frees", "Print frees by allocating and freeing stack; record with --free-stacks");
  add_trace_options(command, options->trace);
  add_top(command, options->top, "pairs of stacks");
  add_frames(command, options->frames);
  add_shared_frames(command, options->shared_frames);
  choose_without_mappings(command, chosen, options);
}

}  // namespace heapprof::cli
