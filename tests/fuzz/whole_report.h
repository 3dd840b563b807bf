// Everything the analyzer makes of a trace, without symbols.
#pragma once

#include <cstddef>
#include <string>

#include "analyzer/replay/analysis/analysis.h"

namespace heapprof::fuzz {

/// What comes after the replay; each takes as long as that.
struct Also {
  bool reports = false;      ///< the texts and the JSON
  bool second_pass = false;  ///< the events, twice more
};

/// Reads all events and drops them. Returns how many.
std::size_t read_events(const std::string& path);

/// Returns how much there was to be told.
std::size_t whole_report(const std::string& path, const replay::Selection& selection, const Also& also);

}  // namespace heapprof::fuzz
