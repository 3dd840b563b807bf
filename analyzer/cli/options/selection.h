// The options that select blocks (--from, --thread, --function, ...): their texts, checked and turned into a
// replay::Selection.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/replay/selection.h"

namespace heapprof::cli {

/// The texts as given on the command line; empty: not given.
struct SelectionTexts {
  std::vector<std::string> threads;        ///< tids or names
  std::vector<std::string> not_threads;    ///< likewise
  std::vector<std::string> modules;        ///< base names or paths; * and ? are wildcards
  std::vector<std::string> not_modules;    ///< likewise
  std::vector<std::string> functions;      ///< extended regular expressions (POSIX), or parts of names
  std::vector<std::string> not_functions;  ///< likewise
  std::string from, to, live_at;           ///< moments
  std::string survivors;                   ///< a moment
  std::string min_lifetime, max_lifetime;  ///< durations

  /// The peak, if a moment was "peak". The moments with its text are it.
  struct Peak {
    std::string text;  ///< its time
    replay::EventPosition position;
  };
  std::optional<Peak> peak;

  bool selects_threads() const noexcept { return !threads.empty() || !not_threads.empty(); }
  bool selects_stacks() const noexcept {
    return !modules.empty() || !not_modules.empty() || !functions.empty() || !not_functions.empty();
  }
};

/// An option that selects blocks, and its value. An option with several values is in a list once for each of them.
struct SelectingOption {
  std::string option;  ///< "--from"
  std::string value;
};

/// All options that restrict the selection (--from to --kind), in a fixed order.
std::vector<SelectingOption> selecting_options(const SelectionTexts& texts, const replay::Selection& selection);

/// What parse_duration_ns() and parse_moment_or_mark() accept, for messages about invalid values.
inline constexpr const char* kDurationExamples = "a duration such as 2.5 (seconds), 300ms or 20us";
inline constexpr const char* kMomentOrMarkExamples =
    "a time such as 2.5 (seconds), 300ms or 40%, start, peak, end, or the text of a mark";

/// Reads "2.5", "2.5s", "300ms", "1min", "40%", "start" or "end". None: `text` is not valid.
std::optional<replay::Moment> parse_moment(const std::string& text);
/// The same, or a mark: "mark:TEXT", or TEXT alone if it begins as no number does.
std::optional<replay::Moment> parse_moment_or_mark(const std::string& text);
/// The same without percentages; nanoseconds.
std::optional<std::uint64_t> parse_duration_ns(const std::string& text);

/// A value of --function, --module, --thread or their exclusions that matches nothing in the recording.
struct UnmatchedValue {
  bool excludes = false;  ///< of an exclusion: all is shown, as without it
  std::string sentence;   ///< with the nearest names; not clean
};

/// Turns the texts into `selection`, whose moments are kept where the texts have none. Throws std::invalid_argument
/// with a sentence when one is invalid or two contradict each other. Returns where the selection, when it is applied
/// to a recording, adds the functions that match nothing.
std::shared_ptr<const std::vector<UnmatchedValue>> resolve_selection(const SelectionTexts& texts,
                                                                     const symbols::Options& symbols,
                                                                     replay::Selection& selection);

/// For each node of the profile, whether its stack (all frames, inlined ones too) has a frame in one of the modules
/// and none in one of the not_modules, has a frame that matches one of the functions, and none that matches one of
/// the not_functions. Frames without a name are matched as "module+0xoffset". Adds the functions that match nothing
/// to `unmatched`.
std::vector<std::uint8_t> match_stacks(const model::Profile& profile, const SelectionTexts& texts,
                                       const symbols::Options& symbols, std::vector<UnmatchedValue>& unmatched);

/// The modules and threads of the texts, excluded or not, that match nothing in the recording.
std::vector<UnmatchedValue> unmatched_modules_and_threads(const model::Profile& profile, const SelectionTexts& texts);

}  // namespace heapprof::cli
