// report --by: what costs memory, one row for each function, line, call site, stack, module or thread.
#pragma once

#include "analyzer/cli/commands/shared/merged_recordings.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// Precondition: options.rows.by has a value. Throws OutputError.
void print_report_rows(const ReportOptions& options, const replay::Analysis& analysis);
/// The same for several recordings, below the list of their processes. There is neither a history nor rows of
/// threads.
void print_rows_of_processes(const ReportOptions& options, const MergedRecordings& recordings);

}  // namespace heapprof::cli
