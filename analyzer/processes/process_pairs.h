// Which process of one set of recordings is which of another one: of two builds, or two runs of a test suite.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::processes {

/// Positions in the two sets; nullopt: only the other set has such a process.
struct ProcessPair {
  std::optional<std::size_t> before;
  std::optional<std::size_t> after;
};

/// Processes match if they have the same program (by its file name) and the same command; then, of those that are
/// left, if they have the same program. Of several that match, the first ones belong together, and so on. In the
/// order of `after`; those that only `before` has are at the end.
std::vector<ProcessPair> process_pairs(std::span<const model::ProcessFigures> before,
                                       std::span<const model::ProcessFigures> after);

}  // namespace heapprof::processes
