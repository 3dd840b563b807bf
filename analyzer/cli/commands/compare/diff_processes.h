// The part of `heapprof diff DIRECTORY DIRECTORY` about single processes.
#pragma once

#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/text_page.h"
#include "analyzer/model/profile.h"

namespace heapprof::cli {

/// A table of the processes whose peak or leaks changed, the largest change first; at most `top` rows, 0: all.
void write_process_changes(TextPage& text, const model::Together& before, const model::Together& after,
                           std::size_t top);
/// All processes: `program`, `command`, and `before` and `after` with the figures of each, or null.
Json process_changes_json(const model::Together& before, const model::Together& after);

}  // namespace heapprof::cli
