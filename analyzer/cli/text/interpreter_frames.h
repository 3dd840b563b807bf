// Which frames of the Python interpreter the call tree folds (model::link_tree).
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/model/profile.h"
#include "analyzer/replay/selection.h"
#include "analyzer/symbols/symbolizer_input.h"

namespace heapprof::cli {

/// For each address 1 if its function only leads from one line of Python to the next, else 0. `profile` has
/// its modules. Functions in `known` are not looked up, and the others are added to it; it may be null.
std::vector<std::uint8_t> find_interpreter_frames(const model::Profile& profile,
                                                  const std::vector<model::CodeAddress>& addresses,
                                                  const symbols::Options& options, KnownFrames* known);

/// Whether the options have frames folded. Without names none are.
inline bool folds_interpreter_frames(const symbols::Options& options) {
  return options.symbols && !options.interpreter_frames;
}

/// Lets an analysis of `selection` fold these frames if the options have them folded.
void fold_interpreter_frames(const symbols::Options& options, replay::Selection& selection);

}  // namespace heapprof::cli
