// heapprof compact: a smaller, indexed copy of a trace.
#include <cstdio>
#include <string>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/compact/compactor.h"

namespace heapprof::cli {
namespace {

int compact(const CompactOptions& arguments) {
  refuse_trace_as_output(arguments.output, arguments.trace);
  const bool replaces = is_trace(arguments.output);
  ProgressLine progress("Compacting " + arguments.trace);
  replay::CompactOptions options;
  options.exact = arguments.exact;
  options.level = arguments.level;
  const replay::CompactResult result = replay::compact(arguments.trace, arguments.output, options,
                                                       [&](const replay::Done& done) { progress.show(done); });
  progress.end();
  if (replaces) print_message(arguments.output + ": replaced the recording of that name");
  std::string text = arguments.output + ": " + render::human_bytes(result.bytes) + ", was " +
                     render::human_bytes(result.original_bytes);
  if (const double events = static_cast<double>(result.events); events != 0) {
    char per_event[64];
    std::snprintf(per_event, sizeof per_event, " (%.2f bytes per event, was %.2f)",
                  static_cast<double>(result.bytes) / events, static_cast<double>(result.original_bytes) / events);
    text += per_event;
  }
  text += "\n";
  if (result.running) text += "the program is still running: the copy ends with what is recorded so far\n";
  if (!arguments.exact)
    text += "times are rounded to microseconds, addresses are replaced by block numbers (--exact keeps both)\n";
  const int status = print_text(text);
  if (result.integrity.complete) return status;
  warn_of_losses(arguments.trace, result.integrity);
  return 1;
}

}  // namespace

int run_compact(const CompactOptions& options) {
  return guarded(options.trace, [&] { return compact(options); });
}

}  // namespace heapprof::cli
