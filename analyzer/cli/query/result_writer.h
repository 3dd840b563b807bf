// Writes the rows of a query: as a table, as CSV, or as JSON.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "analyzer/cli/options/query_format.h"
#include "analyzer/query/database.h"

namespace heapprof::cli {

/// Writes all rows of the statement to the file `output`, or to standard output if it is "-". Throws OutputError, and
/// what Statement::next() throws.
void write_result(query::Statement& statement, QueryFormat format, const std::string& output);

/// Writes the tables with their columns and what they mean. kCsv is written as kTable.
void write_schema(const std::vector<std::unique_ptr<query::Table>>& tables, QueryFormat format,
                  const std::string& output);

}  // namespace heapprof::cli
