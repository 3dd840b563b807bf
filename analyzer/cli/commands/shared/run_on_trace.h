// What all commands that read a trace have in common: opening the trace with a progress line, the messages about what
// it lacks, the protection of recordings from being overwritten, and the exit status.
#pragma once

#include <functional>
#include <string>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/progress_line.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// Opens and replays the trace and calls `print` with it. Prints errors, and what the trace lacks, on standard error.
/// Returns the exit status (commands.h). `print` may throw trace::TraceError or OutputError. Before that,
/// `visit_leaked` is called for each block that was not freed, and `visit_mapping` for each mapping that is live.
int run_on_trace(const TraceOptions& options, const std::function<void(const replay::Analysis&)>& print,
                 const replay::LeakVisitor& visit_leaked = {}, const replay::MappingVisitor& visit_mapping = {});

/// Whether the profile counts mappings, but its recorder did not record them. run_on_trace() prints kNoMappings then,
/// and returns 1.
bool lacks_mappings(const model::Profile& profile);
inline constexpr const char* kNoMappings = "mappings were not recorded (HEAPPROF_MMAP=0)";

/// Prints what the recording lacks, which is not complete. The exit status is 1 then.
void warn_of_losses(const std::string& trace, const model::Integrity& integrity);

/// The same options, for a command that needs nothing but costs (Selection::only_costs).
inline TraceOptions for_costs(TraceOptions options) {
  options.selection.only_costs = true;
  return options;
}

/// Calls `work` and returns its exit status. Prints the errors that reading a trace or writing a file throws, and
/// returns 1 then. `trace` is the file that is named when memory runs out.
int guarded(const std::string& trace, const std::function<int()>& work);

/// Throws OutputError when `path` is the file `trace`, which an output must not replace.
void refuse_trace_as_output(const std::string& path, const std::string& trace);

/// Throws OutputError when `path` is any recording: for outputs that are no recordings themselves.
void refuse_recording_as_output(const std::string& path, const std::string& trace);

}  // namespace heapprof::cli
