// Runs all analyses of a trace, without symbols.
#pragma once

#include <cstddef>
#include <string>

#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::fuzz {

/// Further steps after the replay; each takes as long as the replay.
struct Steps {
  bool reports = false;      ///< print the texts and the JSON
  bool second_pass = false;  ///< replay the events twice more
};

/// Reads all events. Returns their number.
std::size_t read_events(const std::string& path);

/// Returns the size of the outputs in bytes.
std::size_t whole_report(const std::string& path, const replay::Selection& selection, const Steps& steps);

}  // namespace heapprof::fuzz
