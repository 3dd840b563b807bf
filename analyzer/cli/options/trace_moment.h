// TRACE@TIME: a recording and a moment of it, in one argument.
#pragma once

#include <optional>
#include <string>

#include "analyzer/replay/selection.h"

namespace heapprof::cli {

struct TraceMoment {
  std::string trace;
  std::optional<replay::Moment> moment;  ///< nullopt: the argument has no @TIME
};

/// Divides the argument. A file with the whole name has priority; of several parts before an @ that are files, the
/// longest. Throws std::invalid_argument with a sentence when TIME is invalid.
TraceMoment parse_trace_moment(const std::string& argument);

/// Whether both paths lead to one file.
bool is_same_file(const std::string& one, const std::string& other);

}  // namespace heapprof::cli
