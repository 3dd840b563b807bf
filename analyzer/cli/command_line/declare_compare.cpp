// Declares the commands under "Compare and check".
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/options/trace_moment.h"

namespace heapprof::cli {
namespace {

constexpr const char* kCompare = "Compare and check";

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

}  // namespace

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

}  // namespace heapprof::cli
