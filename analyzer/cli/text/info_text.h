// What `heapprof info` prints.
#pragma once

#include "analyzer/cli/text/report_text.h"

namespace heapprof::cli {

/// Appends the recording's program, threads, modules and settings to `text`.
void append_info(ReportText& text, const model::Profile& profile);

}  // namespace heapprof::cli
