// export sqlite: the tables of `query` as a database of SQLite.
#pragma once

#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

/// Returns the exit status (commands.h), or 130 when Ctrl-C ended it. Precondition: options.format is kSqlite.
int run_export_sqlite(const ExportOptions& options);

}  // namespace heapprof::cli
