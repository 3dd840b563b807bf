// What --from, --thread, --function and their like mean: the texts of the command line, checked and turned into
// a replay::Selection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/replay/replay.h"

namespace heapprof::cli {

/// As given on the command line; empty: not given.
struct SelectionTexts {
  std::vector<std::string> threads;        ///< tids or names
  std::vector<std::string> modules;        ///< base names or paths; * and ? stand for any text, any character
  std::vector<std::string> functions;      ///< extended regular expressions (POSIX), or parts of names
  std::vector<std::string> not_functions;  ///< likewise
  std::string from, to, live_at;           ///< moments
  std::string min_lifetime, max_lifetime;  ///< durations

  bool chooses_stacks() const noexcept { return !modules.empty() || !functions.empty() || !not_functions.empty(); }
};

/// "2.5", "2.5s", "300ms", "1min" or "40%". None: it cannot be read so.
std::optional<replay::Moment> parse_moment(const std::string& text);
/// The same but for the percentage; nanoseconds.
std::optional<std::uint64_t> parse_duration_ns(const std::string& text);

/// Takes the texts over into `selection`. Throws std::invalid_argument with a sentence when one cannot be read or
/// two contradict each other.
void settle_selection(const SelectionTexts& texts, const symbols::Options& symbols, replay::Selection& selection);

/// For each node of the profile, whether its stack (all frames, inlined ones too) has a frame in one of the
/// modules, has a frame that fits one of the functions, and none that fits a not_function. Frames without a name
/// are compared as "module+0xoffset".
std::vector<std::uint8_t> choose_stacks(const model::Profile& profile, const SelectionTexts& texts,
                                        const symbols::Options& symbols);

}  // namespace heapprof::cli
