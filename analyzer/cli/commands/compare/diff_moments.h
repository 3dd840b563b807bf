// heapprof diff TRACE@TIME TRACE@TIME: what changed between two moments of one recording.
#pragma once

#include <cstdint>
#include <string>

#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

/// Precondition: options.two_moments, and the format is text. Returns the exit status (commands.h).
int run_diff_moments(const DiffOptions& options);

/// "+1.20 MiB", "-512 B", "+0 B".
std::string signed_bytes(std::int64_t bytes);

}  // namespace heapprof::cli
