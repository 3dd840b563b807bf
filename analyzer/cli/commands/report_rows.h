// report --by: what costs memory, one row for each function, line, call site, stack, module or thread.
#pragma once

#include "analyzer/cli/options/command_options.h"
#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::cli {

/// Precondition: options.rows.by has a value. Throws OutputError.
void print_report_rows(const ReportOptions& options, const replay::Analysis& analysis);

}  // namespace heapprof::cli
