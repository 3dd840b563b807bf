#include "analyzer/cli/options/command_options.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "analyzer/cli/command_line/declare_commands.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/options/selection.h"
#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/options/trace_moment.h"
#include "analyzer/cli/text/figures.h"
#include "analyzer/launch/recorder_settings.h"
#include "analyzer/push/endpoint.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using Chosen = std::optional<CommandOptions>;

// Headings of --help. Under each, commands are listed in the order of their declaration.
constexpr const char* kRecord = "Record";
constexpr const char* kWhere = "See where memory went";
constexpr const char* kLeaks = "Find leaks";
constexpr const char* kTime = "See memory over time";
constexpr const char* kBrowse = "See it in a browser";
constexpr const char* kCompare = "Compare and check";
constexpr const char* kExport = "Export";
constexpr const char* kManage = "Manage recordings";
constexpr const char* kHelp = "Help";

CLI::App& add_command(CLI::App& app, const char* group, const char* name, const char* summary) {
  CLI::App* const command = app.add_subcommand(name, summary);
  command->group(group);
  return *command;
}

/// "report", "export pprof"
std::string full_name_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  const bool is_nested = parent != nullptr && parent->get_parent() != nullptr;
  return (is_nested ? full_name_of(*parent) + " " : "") + command.get_name();
}

/// Makes the parser call `check`, which refuses contradictory options, add the settings of the project file, and then
/// copy `options` to `chosen`.
template <typename Options, typename Check>
void choose(CLI::App& command, Chosen& chosen, const std::shared_ptr<Options>& options, Check&& check) {
  command.callback([options, &command, &chosen, check = std::forward<Check>(check)] {
    if constexpr (requires { options->trace.traces; }) take_traces(options->trace, full_name_of(command));
    check(*options);
    CallSiteOptions* call_sites = nullptr;
    SuppressionOptions* suppressions = nullptr;
    if constexpr (requires { options->call_sites; }) call_sites = &options->call_sites;
    if constexpr (requires { options->suppressions; }) suppressions = &options->suppressions;
    take_project_file(command, call_sites, suppressions);
    chosen = *options;
  });
}
template <typename Options>
void choose(CLI::App& command, Chosen& chosen, const std::shared_ptr<Options>& options) {
  choose(command, chosen, options, [](Options&) {});
}

/// choose() for a command that analyzes single blocks, and therefore no mappings.
template <typename Options>
void choose_without_mappings(CLI::App& command, Chosen& chosen, const std::shared_ptr<Options>& options) {
  choose(command, chosen, options, [name = command.get_name()](Options& read) { refuse_mappings(read.trace, name); });
}

// --- Record ----------------------------------------------------------------------------------------------

void declare_control(CLI::App& app, Chosen& chosen) {
  using Action = ControlOptions::Action;
  const auto options = std::make_shared<ControlOptions>();
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App& command = add_command(app, kRecord, "control",
                                  "Pause, resume or mark a recording while its program runs, or take a snapshot");
  add_list(command, "ARGUMENTS", *words, "TRACE pause|resume|mark TEXT|snapshot|status",
           "pause: record only the frees of recorded blocks from now on\n"
           "resume: record everything again\n"
           "mark TEXT: add a named point to the timeline; TEXT has at most 256 bytes\n"
           "snapshot: record which pages are resident now\n"
           "status: print whether the recording runs, is paused, has stopped or has ended")
      ->expected(3)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_value(command, "--pid", "PID", "Control the recording of process PID; replaces TRACE",
            [options](const std::string& text) {
              std::uint64_t pid = 0;
              if (!read_whole_number(text, pid, 0xffffffff) || pid == 0) refuse_value(text, "--pid", "a process id");
              options->pid = static_cast<std::uint32_t>(pid);
            });
  add_value(command, "--wait", "SECONDS",
            "Wait at most SECONDS for the recorder, which answers when the program allocates or frees",
            [options](const std::string& text) {
              if (!read_decimal(text, options->wait_seconds, 0, 3600))
                refuse_value(text, "--wait", "seconds, from 0 to 3600");
            })
      ->default_str("2");
  add_switch(command, "--json", options->json, "Write the state as JSON");
  command.footer(
      "heapprof control TRACE pause|resume|mark TEXT|snapshot|status\n"
      "heapprof control --pid PID pause|resume|mark TEXT|snapshot|status");
  choose(command, chosen, options, [words](ControlOptions& read) {
    constexpr const char* kActions = "pause, resume, mark TEXT, snapshot or status";
    std::size_t at = 0;
    if (read.pid == 0) {
      if (words->empty()) refuse("missing arguments TRACE (or --pid) and ACTION; expected " + std::string(kActions));
      read.trace = (*words)[at++];
    }
    if (words->size() == at) refuse("missing argument ACTION; expected " + std::string(kActions));
    const std::string& action = (*words)[at++];
    if (action == "pause") read.action = Action::kPause;
    else if (action == "resume") read.action = Action::kResume;
    else if (action == "mark") read.action = Action::kMark;
    else if (action == "snapshot") read.action = Action::kSnapshot;
    else if (action == "status") read.action = Action::kStatus;
    else refuse_value(action, "ACTION", kActions);
    if (read.action == Action::kMark) {
      if (words->size() == at) refuse("missing argument TEXT of mark");
      read.text = (*words)[at++];
    }
    if (words->size() > at) refuse("unexpected argument '" + (*words)[at] + "'");
  });
}

void declare_install_secure(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<InstallSecureOptions>();
  CLI::App& command = add_command(app, kRecord, "install-secure",
                                  "Allow recording of setuid, setgid and setcap programs; needs root");
  add_text(command, "--directory", options->directory, "DIRECTORY", "Write the recordings to DIRECTORY")
      ->default_str(options->directory);
  add_switch(command, "--remove", options->remove, "Undo the installation; recordings stay");
  command.footer(
      "Copies libheapprof.so beside libc with mode u+s, which the loader requires for programs with privileges. "
      "Writes /etc/heapprof.conf, the only settings that the recorder reads in such programs. Creates DIRECTORY.\n"
      "Until --remove, every user can record every such program into DIRECTORY.");
  choose(command, chosen, options);
}

// --- See where memory went -------------------------------------------------------------------------------

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

/// --by of trees and callers.
void add_by_line(CLI::App& command, bool& by_line) {
  add_word<bool>(command, "--by", by_line, {{"function", false}, {"line", true}},
                 "Show functions, or source lines of functions");
}

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

/// --source-path of `source` and `bundle`.
void add_source_paths(CLI::App& command, std::vector<std::string>& paths) {
  add_list(
      command, "--source-path", paths, "DIRECTORY",
      "Search source files below DIRECTORY first, by the ends of the paths in the debug information (repeatable)");
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

// --- Find leaks ------------------------------------------------------------------------------------------

void declare_leaks(CLI::App& app, Chosen& chosen) {
  using Order = LeaksOptions::Order;
  const auto options = std::make_shared<LeaksOptions>();
  CLI::App& command =
      add_command(app, kLeaks, "leaks", "Print what was never freed, by the call site and stack that allocated it");
  add_trace_options(command, options->trace, {.several = true});
  add_suppression_options(command, options->suppressions);
  add_call_site_options(command, options->call_sites);
  add_word<Order>(
      command, "--sort", options->order,
      {{"growth", Order::kGrowth}, {"bytes", Order::kBytes}, {"blocks", Order::kBlocks}, {"age", Order::kAge}},
      "Rank by this; growth: by bytes, which count more if they grow, and less if most of what was allocated was "
      "freed");
  add_switch(command, "!--no-history", options->history, "Print no trends and no times; then no trace is read twice");
  add_top(command, options->top,
          "call sites, without the last ones that have less than 1% each, or stacks with --json");
  add_stacks(command, options->stacks);
  add_frames(command, options->frames);
  add_shared_frames(command, options->shared_frames);
  choose(command, chosen, options, [](LeaksOptions& read) {
    if (read.order != Order::kAge) return;
    // Ages are part of the histories, which mappings and several recordings do not have.
    refuse_for_several(read.trace, true, "--sort age", "--sort bytes");
    if (read.trace.selection.kind != model::Kind::kHeap)
      refuse("--sort age is for the heap only, since mappings have no age; use --sort bytes, or --kind heap");
    if (!read.history) refuse("--sort age and --no-history exclude each other");
  });
}

// --- See memory over time ----------------------------------------------------------------------------------

void declare_top(CLI::App& app, Chosen& chosen) {
  using views::By;
  const auto options = std::make_shared<TopOptions>();
  CLI::App& command = add_command(app, kTime, "top", "Show what is live now, updated while the program runs");
  add_optional_trace(command, options->trace,
                     "Show this recording, finished or not, or that of the process with this id");
  add_switch(command, "--once", options->once, "Print one table and exit");
  add_switch(command, "--batch", options->batch, "Print a table at each interval, until the program ends");
  const CLI::Option* const interval = add_value(command, "--interval", "SECONDS", "Wait SECONDS between two tables",
                                                [options](const std::string& text) {
                                                  if (!read_decimal(text, options->interval_seconds, 0.05, 3600))
                                                    refuse_value(text, "--interval", "seconds, from 0.05 to 3600");
                                                })
                                          ->default_str("1");
  const CLI::Option* const count =
      add_number(command, "--count", options->count, "Print at most N tables; 0: until the program ends");
  add_switch(command, "--json", options->json,
             "Write JSON: with --once a document, with --batch a document in each line");
  add_word<By>(command, "--by", options->by,
               {{"site", By::kSite},
                {"function", By::kFunction},
                {"line", By::kLine},
                {"module", By::kModule},
                {"thread", By::kThread},
                {"stack", By::kStack}},
               "Print a row for each of these; functions, lines and modules with their own costs");
  add_word<TopSort>(command, "--sort", options->sort,
                    {{"live", TopSort::kLive},
                     {"blocks", TopSort::kBlocks},
                     {"growth", TopSort::kGrowth},
                     {"rate", TopSort::kRate}},
                    "Sort the rows by live bytes, live blocks, growth of live bytes, or bytes allocated per second");
  add_top(command, options->top, "rows");
  const CLI::Option* const top = command.get_option("--top");
  add_call_site_options(command, options->call_sites);
  add_symbol_options(command, options->symbols);
  command.footer(
      "Without --once and --batch, top shows a screen; press ? there for its keys. 'growth' is the change of live "
      "bytes since the first table. 'allocated/s' is what was allocated since the "
      "table before, per second; in the first one, since the recording began. Only heap blocks count.");
  choose(command, chosen, options, [interval, count, top](TopOptions& read) {
    if (read.once && read.batch) refuse("--once and --batch exclude each other");
    if (read.once && was_given(interval)) refuse("--once prints one table; --interval is for --batch and the screen");
    if (!read.batch && was_given(count)) refuse("--count is an option of --batch");
    if (!read.once && !read.batch && read.json) refuse("--json is for --once and --batch; add one of them");
    if (!read.once && !read.batch && was_given(top)) refuse("--top is for --once and --batch; add one of them");
  });
}

void check_timeline_of_several(TimelineOptions& options, bool by_given) {
  const TraceOptions& trace = options.trace;
  const bool of_processes = options.by == views::By::kProcess || options.by == views::By::kProgram;
  if (trace.traces.empty()) {
    if (of_processes) refuse("--by process and --by program are for several recordings: heapprof timeline DIRECTORY");
    return;
  }
  if (!by_given) options.by = views::By::kProcess;
  else refuse_for_several(trace, !of_processes, "--by site, module or thread", "--by process or program");
  refuse_for_several(trace, options.resident, "--resident", "");
  refuse_for_several(trace, options.format == TimelineOptions::Format::kOpenMetrics, "--format openmetrics", "");
  refuse_for_several(trace, !trace.texts.live_at.empty(), "timeline --live-at", "heapprof report --live-at");
}

void declare_timeline(CLI::App& app, Chosen& chosen) {
  using Format = TimelineOptions::Format;
  const auto options = std::make_shared<TimelineOptions>();
  CLI::App& command = add_command(app, kTime, "timeline", "Print or draw live memory over time, by call site");
  add_trace_options(command, options->trace, {.json_by_name = false, .several = true});
  add_call_site_options(command, options->call_sites);
  const WordsFor<Format> formats = {{"text", Format::kText},
                                    {"csv", Format::kCsv},
                                    {"json", Format::kJson},
                                    {"svg", Format::kSvg},
                                    {"openmetrics", Format::kOpenMetrics}};
  const CLI::Option* const format = add_format(command, options->format, formats, "Write this format");
  add_word<views::By>(
      command, "--by", options->by,
      {{"site", views::By::kSite},
       {"module", views::By::kModule},
       {"thread", views::By::kThread},
       {"process", views::By::kProcess},
       {"program", views::By::kProgram}},
      "Show the largest call sites, modules or threads separately: call sites by their bytes at the peak, modules "
      "and threads (in JSON call sites, too) by their own maximum; of several recordings the processes (the default) "
      "or programs with the most bytes at the peak of the sum");
  add_number(command, "--sites", options->sites, "Show the N largest of them separately");
  add_switch(command, "--resident", options->resident,
             "Show what resident memory consists of at the snapshots (see heapprof rss), instead of live memory");
  const CLI::Option* const by = command.get_option("--by");
  choose(command, chosen, options, [format, formats, by](TimelineOptions& read) {
    take_format_from_name(format, read.trace.output, formats, read.format, {{".om", Format::kOpenMetrics}});
    if (read.trace.json && was_given(format) && read.format != Format::kJson)
      refuse("--json and --format exclude each other, except --format json");
    if (read.trace.json) read.format = Format::kJson;
    if (read.format == Format::kSvg) refuse_terminal(read.trace.output, "an SVG picture", "timeline.svg");
    if (read.by == views::By::kThread) refuse_mappings(read.trace, "timeline --by thread");
    check_timeline_of_several(read, was_given(by));
    if (!read.resident) return;
    if (read.by != views::By::kSite) refuse("--resident and --by exclude each other");
    refuse_selected_blocks(read.trace, "--resident");
    if (read.format == Format::kOpenMetrics) refuse("--resident and --format openmetrics exclude each other");
  });
}

// --- See it in a browser -----------------------------------------------------------------------------------

void add_answer_options(CLI::App& command, AnswerOptions& options) {
  add_source_paths(command, options.source_paths);
  add_symbol_options(command, options.symbols);
  add_suppression_options(command, options.suppressions);
  add_helper_options(command, options.call_sites);
  add_own(command, options.call_sites);
  add_full_names(command, options.call_sites);
}

/// Which project file the commands are to use. choose() refuses one that is wrong.
void take_project_file_choice(const CLI::App& command, AnswerOptions& options) {
  const CLI::Option* const config = command.get_option("--config");
  if (was_given(config)) options.project_file = config->results().back();
  options.use_project_file = !was_given(command.get_option("--no-config"));
}

void declare_serve(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App& command = add_command(app, kBrowse, "serve", "Show recordings in a browser, also while they are written");
  add_list(command, "TRACE", options->traces, "TRACE",
           "Serve these traces, and all traces in these directories; by default, the newest recording (*.heapprof, "
           "*.hprof) in the current directory")
      ->allow_extra_args(true);
  add_value(command, "--port", "N", "Listen on port N; by default, on any that is free",
            [options](const std::string& text) {
              std::uint64_t port = 0;
              if (!read_whole_number(text, port, 65535) || port == 0)
                refuse_value(text, "--port", "a whole number from 1 to 65535");
              options->port = static_cast<std::uint16_t>(port);
            });
  add_text(command, "--listen", options->address, "ADDRESS",
           "Listen on this IP address; any other than 127.0.0.1 and ::1 can be reached from the network, without "
           "encryption")
      ->default_str(options->address);
  add_switch(command, "!--no-open", options->open, "Open no browser");
  add_answer_options(command, options->answers);
  command.footer(
      "The first line of standard output is the address of the page, with a token without which nothing is answered. "
      "Over ssh, a line on standard error has the command that makes the address reachable. Ctrl-C ends the server.");
  choose(command, chosen, options, [&command](ServeOptions& read) {
    take_project_file_choice(command, read.answers);
    if (!read.traces.empty()) return;
    const NewestTrace newest = find_newest_trace();
    if (newest.path.empty())
      refuse(
          "missing argument TRACE: there is no recording (*.heapprof, *.hprof) in this directory; record a program "
          "with 'heapprof record -- PROGRAM'");
    read.traces = {newest.path};
  });
}

void declare_html(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<HtmlOptions>();
  CLI::App& command = add_command(app, kBrowse, "html", "Write the page of 'serve' into one file, for any browser");
  add_optional_trace(command, options->trace.trace, "Show this trace");
  add_output(command, options->trace.output, "Write the page to FILE; - is standard output");
  add_size(command, "--max-size", "Leave out answers until the file has at most SIZE bytes (default 5M)",
           [options](std::uint64_t bytes) { options->max_bytes = bytes; });
  add_switch(command, "--sources", options->sources, "Include the text of the source files that have costs");
  add_switch(command, "--command-line", options->command_line,
             "Include the arguments of the program, which may contain secrets");
  add_answer_options(command, options->answers);
  command.footer(
      "The file has the answers of all views about the whole recording. About ten ranges of it, the peak and the "
      "first ten marks, it has those of tables, trees and flame graphs. Messages and the page list what was left out "
      "for the size. 'heapprof serve' answers everything else.");
  choose(command, chosen, options,
         [&command](HtmlOptions& read) { take_project_file_choice(command, read.answers); });
}

// --- Compare and check -----------------------------------------------------------------------------------

/// Divides TRACE@TIME and AFTER@TIME, and refuses what two moments cannot be combined with.
void take_moments(DiffOptions& options, const CLI::Option* cost) {
  try {
    TraceMoment before = parse_trace_moment(options.trace.trace);
    TraceMoment after = parse_trace_moment(options.after);
    options.trace.trace = std::move(before.trace);
    options.after = std::move(after.trace);
    options.moment_before = std::move(before.moment);
    options.moment_after = std::move(after.moment);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  if (!options.has_moments()) return;
  const SelectionTexts& texts = options.trace.texts;
  if (!texts.from.empty() || !texts.to.empty() || !texts.live_at.empty())
    refuse("TRACE@TIME names the moments; omit --from, --to and --live-at");
  if (was_given(cost)) refuse("TRACE@TIME compares what is live; omit --cost");
}

void declare_diff(CLI::App& app, Chosen& chosen) {
  using Format = DiffOptions::Format;
  using Order = DiffOptions::Order;
  constexpr const char* kMoments = "Two moments of a recording";
  const auto options = std::make_shared<DiffOptions>();
  CLI::App& command =
      add_command(app, kCompare, "diff", "Compare two recordings of a program, or two moments of a recording");
  add_trace_options(command, options->trace, {.json_by_name = false, .sole_argument = false, .several = true});
  add_text(command, "AFTER", options->after, "AFTER",
           "Compare TRACE with this later recording, or two moments of one: TRACE@1 TRACE@2.5 (seconds), or two "
           "directories "
           "of recordings. Stacks of two recordings match by the names of their functions, so builds may differ")
      ->required();
  const CLI::Option* const cost = add_cost(command, options->cost, "Compare this cost");
  add_top(command, options->top, "stacks; of two moments, call sites (and stacks with --json)");
  add_frames(command, options->frames);
  CLI::Option* const sort =
      add_word<Order>(command, "--sort", options->order, {{"net", Order::kNet}, {"new", Order::kNew}},
                      "Rank by the net difference of live bytes, or by what was allocated between and is still live");
  CLI::Option* const stacks = add_stacks(command, options->stacks);
  for (CLI::Option* const option : {sort, stacks}) option->group(kMoments);
  add_call_site_options(command, options->call_sites);
  const WordsFor<Format> formats = {{"text", Format::kText}, {"svg", Format::kSvg}, {"folded", Format::kFolded}};
  const CLI::Option* const format =
      add_format(command, options->format, formats,
                 "Write a ranking, a flame graph in red and blue, or folded text with two values");
  command.footer(
      "TRACE and AFTER may name a moment: run.heapprof@2.5 (seconds), @300ms, @40%, @start, @peak, @end, or a mark, "
      "run.heapprof@'load begins'. Then what is live at these moments is compared. Of two moments of one recording, "
      "'new' is what was allocated between them and is live at the second one, 'freed' what was live at the first "
      "one "
      "and is not live at the second one, and 'net' the difference of both. With --survivors, 'left' is what of "
      "'new' "
      "is still live at TIME. A realloc counts as a free and an allocation. A file whose whole name is TRACE@TIME "
      "has "
      "priority.");
  choose(command, chosen, options, [=](DiffOptions& read) {
    take_moments(read, cost);
    if (read.has_moments() && (is_directory(read.trace.trace) || is_directory(read.after)))
      refuse("TRACE@TIME is for one recording; for a directory, use --live-at TIME");
    const bool one_recording = read.has_moments() && is_same_file(read.trace.trace, read.after);
    for (const CLI::Option* const option : {sort, stacks})
      if (was_given(option) && !one_recording)
        refuse(option->get_name() + " is for two moments of one recording: heapprof diff TRACE@TIME TRACE@TIME");
    if (read.has_moments() && !one_recording && !read.trace.texts.survivors.empty())
      refuse("--survivors is for two moments of one recording");
    if (one_recording) refuse_mappings(read.trace, "diff TRACE@TIME TRACE@TIME");
    if (!was_given(format) && ends_in(read.trace.output, ".json")) read.trace.json = true;
    if (!read.trace.json) take_format_from_name(format, read.trace.output, formats, read.format);
    if (read.format == Format::kSvg) refuse_terminal(read.trace.output, "an SVG picture", "diff.svg");
    if (read.format != Format::kText && read.trace.json)
      refuse("--json and --format exclude each other, except --format text");
    if (one_recording && read.format != Format::kText && !read.trace.texts.survivors.empty())
      refuse(
          "--survivors is for text and --json; a flame graph of the survivors: heapprof flamegraph TRACE --from A "
          "--to B --survivors");
    read.two_moments = one_recording;
  });
}

void declare_check(CLI::App& app, Chosen& chosen) {
  struct Limit {
    const char* option;
    bool bytes;
    const char* help;
  };
  static constexpr Limit kLimits[kCheckedFigures] = {
      {"--max-peak", true, "Allow at most SIZE bytes live at one moment"},
      {"--max-leaked", true, "Allow at most SIZE bytes live at the end, without suppressed ones"},
      {"--max-leaked-blocks", false, "Allow at most N blocks live at the end, without suppressed ones"},
      {"--max-allocated", true, "Allow at most SIZE bytes allocated in all"},
      {"--max-allocations", false, "Allow at most N allocations"},
      {"--max-temporary", false, "Allow at most N temporary allocations"},
  };
  constexpr const char* kGroup = "Limits";
  const auto options = std::make_shared<CheckOptions>();
  CLI::App& command =
      add_command(app, kCompare, "check", "Compare figures with limits; exit status 3 when one is exceeded");
  add_trace_options(command, options->trace, {.several = true});
  for (std::size_t i = 0; i < kCheckedFigures; ++i)
    add_size(command, kLimits[i].option, kLimits[i].help,
             [options, i](std::uint64_t limit) { options->limits[i] = limit; })
        ->type_name(kLimits[i].bytes ? "SIZE" : "N")
        ->group(kGroup);
  add_size(command, "--max-pinned",
           "Allow at most SIZE bytes of overhead as in 'heapprof pins': what live blocks pin beyond their own bytes",
           [options](std::uint64_t limit) { options->max_pinned = limit; })
      ->group(kGroup);
  add_size(command, "--max-sum-peak", "Allow at most SIZE bytes live at one moment in several recordings together",
           [options](std::uint64_t limit) { options->max_sum_peak = limit; })
      ->group(kGroup);
  add_size(command, "--max-sum-leaked",
           "Allow at most SIZE bytes live at the ends of several recordings together, without suppressed ones",
           [options](std::uint64_t limit) { options->max_sum_leaked = limit; })
      ->group(kGroup);
  add_text(command, "--baseline", options->baseline, "FILE",
           "Allow no figure to exceed that of the recording FILE by more than --tolerance")
      ->group(kGroup);
  add_value(command, "--tolerance", "PERCENT", "Allow figures to exceed those of the baseline by PERCENT",
            [options](const std::string& text) {
              if (!read_decimal(text, options->tolerance_percent, 0, 1e300))
                refuse_value(text, "--tolerance", "a number that is not negative");
            })
      ->default_str("10")
      ->group(kGroup);
  add_suppression_options(command, options->suppressions);
  add_text(command, "--junit", options->junit, "FILE", "Write the results to FILE too, as JUnit XML");
  command.footer(
      "Exit status 3: a limit is exceeded. Exit status 1: there is no verdict, because the trace is incomplete, its "
      "recording stopped before the program ended, --kind counts mappings and they were not recorded, one of several "
      "recordings cannot be read, or because no stack or thread matches --function, --module or --thread, for "
      "example after a function was renamed. With a limit of 0 for --max-peak, --max-allocated or --max-allocations, "
      "a name that matches nothing is no error, because such a limit requires that nothing is allocated. With "
      "several recordings, each process must be within the limits; --max-sum-peak and --max-sum-leaked are for all "
      "of them together.");
  const CLI::Option* const trace = command.get_option("TRACE");
  choose(command, chosen, options, [trace](CheckOptions& read) {
    bool any = !read.baseline.empty();
    for (const auto& limit : read.limits) any |= limit.has_value();
    any |= read.max_pinned.has_value() || read.max_sum_peak.has_value() || read.max_sum_leaked.has_value();
    refuse_for_several(read.trace, read.max_pinned.has_value(), "--max-pinned", "");
    refuse_for_several(read.trace, !read.baseline.empty(), "--baseline", "heapprof diff DIRECTORY DIRECTORY");
    refuse_for_several(read.trace, read.max_sum_peak && !read.trace.texts.live_at.empty(), "--live-at",
                       "--from and --to");
    if (read.trace.traces.empty() && (read.max_sum_peak || read.max_sum_leaked))
      refuse(
          "--max-sum-peak and --max-sum-leaked are for several recordings; of one, use --max-peak and --max-leaked");
    if (read.max_pinned) refuse_selected_blocks(read.trace, "--max-pinned");
    if (!any) refuse("missing limit; give at least one, such as --max-peak 100M, or --baseline FILE");
    std::error_code ignored;
    if (!read.baseline.empty() && !was_given(trace) &&
        std::filesystem::equivalent(read.trace.trace, read.baseline, ignored))
      refuse(
          "the newest recording in this directory is the baseline itself; name the recording to check: heapprof "
          "check TRACE --baseline " +
          read.baseline);
  });
}

// --- Export ----------------------------------------------------------------------------------------------

/// `export sqlite`: unlike the other formats, it has the tables of `query`, and takes several recordings.
void declare_export_sqlite(CLI::App& group, Chosen& chosen) {
  const auto options = std::make_shared<ExportOptions>();
  options->format = ExportOptions::Format::kSqlite;
  CLI::App& command = *group.add_subcommand(
      "sqlite", "Write a database for sqlite3, datasette, DuckDB and pandas: tables of 'query'");
  add_trace_options(command, options->trace, {.json = false, .output_required = true, .several = true});
  add_switch(command, "--events", options->events, "Write every allocation, too: the table allocations");
  add_call_site_options(command, options->call_sites);
  command.footer(
      "FILE gets its name when it is complete, and replaces what has that name. 'heapprof query --schema' describes "
      "the tables. The view frames is made of the tables code and stack_frames.");
  choose(command, chosen, options, [](ExportOptions& read) {
    if (read.trace.output == "-") refuse("a database cannot be written to standard output; give a file: -o run.db");
  });
}

/// `export rows`: of any number of recordings, each by itself.
void declare_export_rows(CLI::App& group, Chosen& chosen) {
  using exporter::RowFormat;
  static const WordsFor<RowFormat> formats = {{"ndjson", RowFormat::kNdjson}, {"csv", RowFormat::kCsv}};
  const auto options = std::make_shared<ExportOptions>();
  options->format = ExportOptions::Format::kRows;
  const auto per_stack = std::make_shared<bool>(false);
  CLI::App& command = *group.add_subcommand(
      "rows", "Write rows of sums for a database of many hosts: host, build, labels, stack and its costs");
  add_trace_options(command, options->trace,
                    {.json = false, .output_required = true, .selection = false, .several = true});
  add_switch(command, "--per-stack", *per_stack, "Write a row for each call stack of each recording");
  CLI::Option* const format = add_format(command, options->row_format, formats,
                                         "Write a JSON object in each line, or CSV with a header line");
  add_labels(command, options->labels,
             "Add a label to those of the recordings, or replace one (repeatable); the labels host and program also "
             "replace the columns of these names");
  add_number(command, "--top", options->top,
             "Write the N stacks with the most bytes at the peak, never freed, and allocated; one more row has the "
             "sum of the others; 0: all");
  add_call_site_options(command, options->call_sites);
  command.footer(
      "FILE is compressed when its name ends in .gz or .zst. The sums over the rows of a recording are its totals.");
  choose(command, chosen, options, [per_stack, format](ExportOptions& read) {
    if (!*per_stack) refuse("missing option --per-stack; rows of single allocations: heapprof export ndjson");
    take_format_from_name(format, read.trace.output, formats, read.row_format,
                          {{".csv.gz", RowFormat::kCsv}, {".csv.zst", RowFormat::kCsv}});
  });
}

void declare_export(CLI::App& app, Chosen& chosen) {
  using Format = ExportOptions::Format;
  struct Target {
    const char* name;
    Format format;
    bool blocks;  ///< the format holds single blocks or events
    const char* help;
  };
  static constexpr Target kTargets[] = {
      {"heaptrack", Format::kHeaptrack, true, "Write for heaptrack_print and heaptrack_gui"},
      {"pprof", Format::kPprof, false, "Write for go tool pprof and other readers of profile.proto"},
      {"speedscope", Format::kSpeedscope, false, "Write for speedscope.app: one profile for each cost"},
      {"massif", Format::kMassif, false, "Write for ms_print and massif-visualizer"},
      {"dhat", Format::kDhat, true, "Write for dh_view.html of valgrind"},
      {"callgrind", Format::kCallgrind, false, "Write for callgrind_annotate and KCachegrind"},
      {"firefox", Format::kFirefox, true,
       "Write for profiler.firefox.com, with retained memory over any range of time"},
      {"perfetto", Format::kPerfetto, false,
       "Write for ui.perfetto.dev and trace_processor: the heap by stack, and counters over time"},
      {"ndjson", Format::kNdjson, true, "Write rows for databases: a JSON object in each line"},
      {"csv", Format::kCsv, true, "Write rows for databases and spreadsheets"},
  };
  CLI::App& group = add_command(app, kExport, "export", "Write the trace in the format of another program");
  group.require_subcommand(1);
  const std::string compression =
      "FILE is compressed when its name ends in .gz or .zst (pprof: always); - is standard output.";
  group.footer(compression);
  for (const Target& target : kTargets) {
    const auto options = std::make_shared<ExportOptions>();
    options->format = target.format;
    CLI::App& command = *group.add_subcommand(target.name, target.help);
    const bool has_rows = target.format == Format::kNdjson || target.format == Format::kCsv;
    const bool has_sums = target.format == Format::kPprof || target.format == Format::kSpeedscope ||
                          target.format == Format::kCallgrind;
    add_trace_options(
        command, options->trace,
        {.json = false, .output_required = true, .several = true, .refuses_several = !has_rows && !has_sums});
    if (has_rows) command.footer(compression + " Of several recordings, only --rows stacks can be written.");
    else if (!has_sums)
      command.footer(compression + " This format takes one recording; pprof, speedscope and callgrind take several.");
    if (has_rows)
      add_word<exporter::Rows>(
          command, "--rows", options->rows,
          {{"events", exporter::Rows::kEvents},
           {"blocks", exporter::Rows::kBlocks},
           {"stacks", exporter::Rows::kStacks},
           {"pinned", exporter::Rows::kPinned}},
          "Write a row for each event, each block live at the end, each stack with its costs, or "
          "each stack with what its live blocks keep from being returned");
    choose(command, chosen, options, [target, has_rows, has_sums](ExportOptions& read) {
      const bool sums = has_sums || (has_rows && read.rows == exporter::Rows::kStacks);
      refuse_for_several(read.trace, !sums,
                         std::string("export ") + target.name + (has_rows ? " of single rows" : ""),
                         has_rows ? "--rows stacks" : "export pprof, speedscope or callgrind");
      const bool blocks = target.blocks && !(has_rows && read.rows == exporter::Rows::kStacks);
      if (read.rows == exporter::Rows::kPinned) refuse_selected_blocks(read.trace, "--rows pinned");
      if (blocks) refuse_mappings(read.trace, std::string("export ") + target.name);
      if (read.format == Format::kPprof) refuse_terminal(read.trace.output, "a compressed file", "profile.pb.gz");
    });
  }
  declare_export_sqlite(group, chosen);
  declare_export_rows(group, chosen);
}

/// Divides the arguments of `query` into recordings and SQL. SQL has blanks, and is no file.
void take_sql(std::vector<std::string> words, QueryOptions& options) {
  const auto is_sql = [](const std::string& word) {
    std::error_code ignored;
    return word.find_first_of(" \t\n(") != std::string::npos && !std::filesystem::exists(word, ignored);
  };
  if (!words.empty() && is_sql(words.back())) {
    options.sql = std::move(words.back());
    words.pop_back();
  }
  options.traces = std::move(words);
  for (const std::string& word : options.traces)
    if (is_sql(word)) refuse("unexpected argument '" + word + "'; give the SQL last, as one argument");
  if (!options.traces.empty()) options.trace.trace = options.traces.front();
}

void declare_query(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<QueryOptions>();
  const auto words = std::make_shared<std::vector<std::string>>();
  const auto format = std::make_shared<std::array<bool, 3>>();  // by QueryFormat
  const auto schema = std::make_shared<bool>(false);
  CLI::App& command = add_command(app, kExport, "query", "Query recordings in SQL; their parts are tables");
  add_list(command, "TRACE", *words, "TRACE", "Read this trace, or several, or all in these directories")
      ->allow_extra_args(true);
  add_text(
      command, "SQL", options->sql, "SQL",
      "Print the rows of this SELECT, in the SQL of SQLite; without it, the tables and their columns are listed");
  add_trace_options(command, options->trace, {.json = false, .several = true, .declares_trace = false});
  add_switch(command, "--table", (*format)[0], "Write aligned columns; the default on a terminal");
  add_switch(command, "--csv", (*format)[1], "Write CSV; the default otherwise");
  add_switch(command, "--json", (*format)[2], "Write JSON; the default where FILE ends in .json");
  add_switch(command, "--schema", *schema, "List the tables and their columns");
  add_value(command, "--temp-dir", "DIRECTORY",
            "Keep what does not fit into memory in files in DIRECTORY; by default, in that of TMPDIR, or in /var/tmp",
            [options](const std::string& directory) {
              std::error_code ignored;
              if (!std::filesystem::is_directory(directory, ignored))
                refuse_value(directory, "--temp-dir", "a directory");
              options->temporary_directory = directory;
            });
  add_call_site_options(command, options->call_sites);
  command.footer(
      "Tables: processes, threads, modules, timeline, marks, stacks, call_sites, frames, allocations, live_blocks, "
      "mappings, samples, residency, labels. Options that select blocks apply to all of them. A statement that would "
      "write is refused.");
  choose(command, chosen, options, [words, format, schema](QueryOptions& read) {
    take_sql(*words, read);
    const std::string& output = read.trace.output;
    if (std::ranges::count(*format, true) > 1) refuse("--table, --csv and --json exclude each other");
    const bool is_table = output == "-" && ::isatty(STDOUT_FILENO) != 0;
    read.format = (*format)[2] || ends_in(output, ".json")      ? QueryFormat::kJson
                  : (*format)[0] || (is_table && !(*format)[1]) ? QueryFormat::kTable
                                                                : QueryFormat::kCsv;
    if ((*format)[0]) read.format = QueryFormat::kTable;
    if ((*format)[1]) read.format = QueryFormat::kCsv;
    if (*schema && !read.sql.empty()) refuse("--schema and SQL exclude each other");
    if (read.traces.empty() && !*schema) refuse("missing argument TRACE");
  });
}

std::chrono::milliseconds read_duration(const std::string& text, const char* option, std::chrono::milliseconds min,
                                        std::chrono::milliseconds max, const char* expected) {
  const auto ns = parse_duration_ns(text);
  const auto ms = std::chrono::milliseconds(ns ? *ns / 1'000'000 : 0);
  if (!ns || ms < min || ms > max) refuse_value(text, option, expected);
  return ms;
}

void declare_push(CLI::App& app, Chosen& chosen) {
  using std::chrono::milliseconds;
  const auto options = std::make_shared<PushOptions>();
  CLI::App& command = add_command(app, kExport, "push", "Send profiles to Pyroscope or an OpenTelemetry collector");
  add_trace_options(command, options->trace,
                    {.json = false, .sole_argument = false, .several = true, .output = false});
  add_text(command, "URL", options->url, "URL",
           "Send to this server: http://HOST:4040 is Pyroscope, http://HOST:4318 a collector")
      ->required();
  add_value(command, "--every", "TIME",
            "Follow recordings while they are written: send what was allocated in each interval of TIME, and what is "
            "live at its end, until their programs have ended",
            [options](const std::string& text) {
              options->every = read_duration(text, "--every", milliseconds(100), std::chrono::hours(24 * 7),
                                             "a duration from 100ms to 7 days, such as 60 (seconds) or 5min");
            });
  add_choice(
      command, "--protocol", {"auto", "pyroscope", "otlp"}, 0,
      "Send pprof to Pyroscope, or OTLP profiles over HTTP; auto: otlp if the port is 4318 or the path ends in "
      "/profiles",
      [options](std::size_t position) {
        if (position != 0) options->protocol = position == 1 ? push::Protocol::kPyroscope : push::Protocol::kOtlp;
      });
  add_text(command, "--service", options->service, "NAME", "Name the service NAME; by default, as the program");
  add_labels(command, options->labels, "Add a label to those of the recording, or replace one (repeatable)");
  add_text(command, "--headers", options->headers_file, "FILE",
           "Add the HTTP headers in FILE, a line NAME: VALUE each, such as Authorization; also those in the variable "
           "HEAPPROF_PUSH_HEADERS");
  add_text(command, "--ca-file", options->ca_file, "FILE",
           "Trust the certificates in FILE, instead of the system's, for https");
  add_value(command, "--timeout", "TIME", "Wait at most TIME for an answer", [options](const std::string& text) {
    options->timeout = read_duration(text, "--timeout", milliseconds(10), std::chrono::hours(1),
                                     "a duration from 10ms to 1 hour, such as 30 (seconds)");
  })->default_str("30");
  add_number(command, "--retries", options->retries, "Try N times again, with growing pauses, if that may help");
  add_switch(command, "-q,--quiet", options->quiet, "Print nothing for profiles that were sent");
  command.footer(
      "Profiles have the real times of the recording. Nothing is sent but names of functions, files and modules, "
      "build IDs, figures, the host, the program's name, its process id and labels; no arguments, and no contents of "
      "memory. "
      "Redirects are not followed. Exit status 1: not everything was delivered.");
  choose(command, chosen, options, [](PushOptions& read) {
    try {
      push::endpoint_of(read.url, read.protocol);
    } catch (const std::invalid_argument& error) {
      refuse("invalid value '" + read.url + "' for URL: " + error.what());
    }
    if (read.every.count() == 0) return;
    const auto selecting = selecting_options(read.trace.texts, read.trace.selection);
    if (!selecting.empty())
      refuse(selecting.front().option + " is for a push without --every, which sends all heap blocks");
  });
}

// --- Manage recordings -----------------------------------------------------------------------------------

void declare_info(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<InfoOptions>();
  CLI::App& command =
      add_command(app, kManage, "info", "Print what was recorded: program, threads, modules, settings, integrity");
  add_trace_options(command, options->trace);
  choose(command, chosen, options);
}

void declare_bundle(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<BundleOptions>();
  CLI::App& command =
      add_command(app, kManage, "bundle", "Copy a trace together with its symbols, to be read on another machine");
  add_optional_trace(command, options->trace.trace, "Copy this trace");
  add_output(command, options->trace.output, "Write the copy to FILE; - is standard output");
  add_symbol_options(command, options->trace.symbols);
  add_switch(command, "--sources", options->sources, "Pack the source files that have costs, for 'heapprof source'");
  add_switch(command, "--command-line", options->command_line,
             "Include the arguments of the program, which may contain secrets");
  add_source_paths(command, options->source_paths);
  choose(command, chosen, options, [](BundleOptions& read) {
    refuse_terminal(read.trace.output, "a trace", "bundled.heapprof");
    read.trace.output_is_recording = true;
  });
}

void declare_compact(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<CompactOptions>();
  CLI::App& command = add_command(app, kManage, "compact", "Write a smaller, indexed copy of a trace");
  add_optional_trace(command, options->trace,
                     "Compact this trace; if its program still runs, what is recorded so far");
  add_output(command, options->output, "Write the copy to FILE");
  add_switch(command, "--exact", options->exact, "Keep addresses and exact times");
  add_value(command, "--level", "N", "Compress with zstd at level N, from 1 (fast) to 19 (small)",
            [options](const std::string& text) {
              std::uint64_t level = 0;
              if (!read_whole_number(text, level, 19) || level == 0)
                refuse_value(text, "--level", "a whole number from 1 to 19");
              options->level = static_cast<int>(level);
            })
      ->default_str(std::to_string(options->level));
  command.footer(
      "Every command reads the copy, and reads slices of time faster. Times are rounded down to microseconds, and "
      "blocks have numbers instead of addresses; all other figures stay the same. What follows from addresses needs "
      "--exact: 'rss', and 'pins' at other moments than snapshots of resident pages and the end.");
  choose(command, chosen, options, [](CompactOptions& read) {
    if (read.output == "-")
      refuse(
          "invalid value '-' for --output; expected a file with a name, since the trace is read while it is "
          "compacted");
  });
}

void declare_index(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<IndexOptions>();
  CLI::App& command = add_command(app, kManage, "index", "Write an index beside a trace, for fast slices of time");
  add_optional_trace(command, options->trace, "Index this trace; its program must have ended");
  add_text(command, "-o,--output", options->output, "FILE",
           "Write the index to FILE; commands find only the default, TRACE.idx");
  command.footer(
      "Without this command, the first slice, leaks, timeline or info of a large trace writes an index to the user's "
      "cache directory "
      "($XDG_CACHE_HOME/heapprof/index or ~/.cache/heapprof/index). An index beside the trace can be copied with "
      "it.");
  choose(command, chosen, options, [](IndexOptions& read) {
    if (read.output == "-")
      refuse("invalid value '-' for --output; expected a file, since commands look for an index beside its trace");
  });
}

// --- Help ------------------------------------------------------------------------------------------------

void declare_help(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<HelpOptions>();
  CLI::App& command = add_command(app, kHelp, "help", "Explain a command, or list all commands");
  command
      .add_option(
          "COMMAND",
          [options](const CLI::results_t& words) {
            for (const std::string& word : words) options->command += (options->command.empty() ? "" : " ") + word;
            return true;
          },
          "Explain this command (report, export csv); by default, list all")
      ->type_name("COMMAND")
      ->expected(2)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  choose(command, chosen, options);
}

void declare_manual(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ManualOptions>();
  CLI::App& command = add_command(app, kHelp, "manual", "Print a manual page, for man -l");
  add_text(command, "PAGE", options->page, "PAGE", "Print the page of this command; by default, the overview");
  add_text(command, "--directory", options->directory, "DIRECTORY", "Write all pages to DIRECTORY instead");
  add_switch(command, "--list", options->list, "Print the names of all pages");
  // Hidden, for developers: its output is docs/reference.md.
  add_switch(command, "--markdown", options->markdown, "Print the reference of all commands")->group("");
  choose(command, chosen, options);
}

void declare_completions(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<CompletionsOptions>();
  CLI::App& command = add_command(app, kHelp, "completions", "Print a completion script for a shell");
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  add_choice(command, "SHELL", shells, 0, "Print the script for this shell: bash, zsh or fish",
             [options, shells](std::size_t position) { options->shell = shells[position]; })
      ->default_str("")
      ->required();
  command.footer(
      "heapprof completions bash >~/.local/share/bash-completion/completions/heapprof\n"
      "heapprof completions zsh >DIRECTORY/_heapprof, where DIRECTORY is in fpath\n"
      "heapprof completions fish >~/.config/fish/completions/heapprof.fish");
  choose(command, chosen, options);
}

}  // namespace

void declare_record(CLI::App& command, RecordOptions& options) {
  using launch::RecorderSetting;
  const std::span<const RecorderSetting> settings = launch::recorder_settings();
  const auto values = std::make_shared<std::vector<std::string>>(settings.size());  // empty: not given
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const RecorderSetting* const setting = &settings[i];
    const std::string names = (setting->is_output() ? "-o," : "") + std::string(setting->option);
    CLI::Option* option = nullptr;
    if (setting->kind == RecorderSetting::Kind::kLabels) {
      add_labels(command, options.labels, setting->help)->default_str(setting->default_value);
      continue;
    }
    if (setting->kind == RecorderSetting::Kind::kFlag)
      option = command.add_flag(names + "{on}", (*values)[i], setting->help)->type_name("[on|off]");
    else
      option = command
                   .add_option(
                       names,
                       [values, i](const CLI::results_t& texts) {
                         (*values)[i] = texts.back();
                         return true;
                       },
                       setting->help)
                   ->type_name(setting->value)
                   ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    option->default_str(setting->default_value);
    if (setting->deprecated) option->group("");
    option->check(
        [setting](const std::string& text) {
          if (!launch::is_valid(*setting, text))
            refuse_value(text, setting->option, launch::expected_value(*setting));
          return std::string();
        },
        "");
  }
  command
      .add_flag_callback(
          "--python-allocations", [&options] { options.settings.emplace_back("PYTHONMALLOC", "malloc"); },
          "Let Python allocate small blocks with malloc too (PYTHONMALLOC=malloc), so that they are recorded")
      ->disable_flag_override();
  add_switch(command, "-f,--force", options.force, "Replace the FILE of -o if it exists")->disable_flag_override();
  add_switch(command, "-q,--quiet", options.quiet, "Print no summary at the end")->disable_flag_override();
  command.footer(
      "Options end at PROGRAM. Each option with a value is also an environment variable: --max-depth is "
      "HEAPPROF_MAX_DEPTH, --label is HEAPPROF_LABELS.");
  command.callback([values, settings, &options] {
    for (std::size_t i = 0; i < settings.size(); ++i) {
      const std::string& value = (*values)[i];
      if (value.empty()) continue;
      if (settings[i].is_output()) options.output = value;
      else options.settings.emplace_back(settings[i].variable, value);
    }
  });
}

namespace {

struct Command {
  std::string_view name;
  void (*declare)(CLI::App&, Chosen&);
};

constexpr Command kCommands[] = {
    {"record",
     [](CLI::App& app, Chosen&) {
       // Only for --help: parse_record_options() parses the words after "record".
       static RecordOptions unused;
       declare_record(add_command(app, kRecord, "record", "Run a program and record its allocations"), unused);
     }},
    {"control", declare_control},
    {"install-secure", declare_install_secure},
    {"report", declare_report},
    {"tree", declare_tree},
    {"callers", declare_callers},
    {"blocks", declare_blocks},
    {"source", declare_source},
    {"flamegraph", declare_flamegraph},
    {"pins", declare_pins},
    {"rss", declare_rss},
    {"histogram", declare_histogram},
    {"churn", declare_churn},
    {"reallocs", declare_reallocs},
    {"threads", declare_threads},
    {"frees", declare_frees},
    {"leaks", declare_leaks},
    {"top", declare_top},
    {"timeline", declare_timeline},
    {"serve", declare_serve},
    {"html", declare_html},
    {"diff", declare_diff},
    {"check", declare_check},
    {"export", declare_export},
    {"query", declare_query},
    {"push", declare_push},
    {"info", declare_info},
    {"bundle", declare_bundle},
    {"compact", declare_compact},
    {"index", declare_index},
    {"help", declare_help},
    {"manual", declare_manual},
    {"completions", declare_completions},
};

}  // namespace

void declare_commands(CLI::App& app, std::optional<CommandOptions>& chosen, std::string_view only) {
  for (const Command& command : kCommands)
    if (only.empty() || command.name == only) command.declare(app, chosen);
}

bool is_command(std::string_view name) {
  return std::ranges::any_of(kCommands, [&](const Command& command) { return command.name == name; });
}

}  // namespace heapprof::cli
