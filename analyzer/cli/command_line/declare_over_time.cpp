// Declares the commands under "See memory over time".
#include <memory>
#include <string>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/top/top_options.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {
namespace {

constexpr const char* kTime = "See memory over time";

}  // namespace

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

namespace {

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

}  // namespace

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

}  // namespace heapprof::cli
