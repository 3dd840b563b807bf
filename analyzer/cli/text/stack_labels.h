// What stacks are called in the rows of a table: the call site and its callers in one line.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/model/profile.h"
#include "analyzer/views/rows.h"

namespace heapprof::cli {

/// The labels of rows that are stacks, clean, by row; empty: the stack has no call site. Where stacks have the same
/// call site, the frames in which they differ follow it.
std::vector<std::string> stack_labels(const model::Profile& profile, const ViewNames& names, const Findings& findings,
                                      std::span<const views::Row> rows);

}  // namespace heapprof::cli
