// heapprof compact: a smaller, indexed copy of a trace.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/commands/trace_command.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/compact/compactor.h"

namespace heapprof::cli {
namespace {

struct Arguments {
  std::string trace;
  std::string output;
  bool exact = false;
  int level = replay::CompactOptions{}.level;
};

int compact(const Arguments& arguments) {
  refuse_trace_as_output(arguments.output, arguments.trace);
  ProgressLine progress("Compacting " + arguments.trace);
  replay::CompactOptions options;
  options.exact = arguments.exact;
  options.level = arguments.level;
  const replay::CompactResult result =
      replay::compact(arguments.trace, arguments.output, options,
                      [&](double share, std::uint64_t records) { progress.show(share, records); });
  progress.show(1, 0);
  std::printf("%s: %s, was %s", arguments.output.c_str(), render::human_bytes(result.bytes).c_str(),
              render::human_bytes(result.original_bytes).c_str());
  if (const double events = static_cast<double>(result.events); events != 0)
    std::printf(" (%.2f bytes per event, was %.2f)", static_cast<double>(result.bytes) / events,
                static_cast<double>(result.original_bytes) / events);
  std::printf("\n");
  if (result.running) std::printf("the program is still running: the copy ends with what is recorded so far\n");
  if (!arguments.exact)
    std::printf("times are rounded to microseconds, addresses are replaced by block numbers (--exact keeps both)\n");
  return 0;
}

}  // namespace

void add_compact(CLI::App& app, int& status) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* const command = app.add_subcommand("compact", "Rewrite a trace smaller and indexed");
  add_trace_argument(*command, arguments->trace,
                     "Trace to rewrite; of a program that still runs, what there is so far");
  command->add_option("-o,--output", arguments->output, "The new trace")->required();
  command->add_flag("--exact", arguments->exact, "Keep addresses, and times to the tick");
  command->add_option("--level", arguments->level, "How hard zstd tries")
      ->transform(whole_number())
      ->check(CLI::Range(1, 19))
      ->capture_default_str();
  command->footer(
      "Every command reads the new trace as it does the old one, and slices of time sooner. Times are rounded down to "
      "microseconds and blocks numbered in the place of their addresses; all other figures stay what they were.");
  command->callback([arguments, &status] {
    if (arguments->output == "-")
      throw CLI::ValidationError("--output",
                                 "a compacted trace is read back while it is made, so it needs a file with a name");
    status = guarded(arguments->trace, [&] { return compact(*arguments); });
  });
}

}  // namespace heapprof::cli
