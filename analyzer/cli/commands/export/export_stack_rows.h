// export rows: one row for each call stack, in a form in which the rows of many hosts and builds can be put together.
#pragma once

#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

/// Returns the exit status (commands.h). Precondition: options.format is kRows.
int run_export_stack_rows(const ExportOptions& options);

}  // namespace heapprof::cli
