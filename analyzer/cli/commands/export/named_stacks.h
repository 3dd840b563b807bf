// The stacks of a profile with names, for the formats of other programs.
#pragma once

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/export/stack_table.h"
#include "analyzer/model/profile.h"
#include "analyzer/symbols/symbolizer.h"

namespace heapprof::cli {

/// All stacks that have costs. `known`: frames that were looked up before, to which those of this profile are added.
/// The table refers to `profile`.
exporter::StackTable stacks_with_names(const model::Profile& profile, const symbols::Options& options,
                                       KnownFrames* known = nullptr);

}  // namespace heapprof::cli
