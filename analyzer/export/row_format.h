// The format of the rows in rows.h and stack_rows.h.
#pragma once

namespace heapprof::exporter {

enum class RowFormat {
  kNdjson,  ///< a JSON object in each line
  kCsv      ///< RFC 4180, with a header line
};

}  // namespace heapprof::exporter
