// How `query` writes rows.
#pragma once

namespace heapprof::cli {

enum class QueryFormat { kTable, kCsv, kJson };

}  // namespace heapprof::cli
