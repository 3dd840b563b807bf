// heapprof diff TRACE@TIME TRACE@TIME: what changed between two moments of one recording.
#pragma once

#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

/// Precondition: options.two_moments, and the format is text. Returns the exit status (commands.h).
int run_diff_moments(const DiffOptions& options);

}  // namespace heapprof::cli
