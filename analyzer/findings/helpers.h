// Helpers: functions that allocate for their callers, such as xmalloc, g_malloc, luaM_realloc_, or the growth
// function of a string type. The call site of a stack is the first frame above them.
//
// A function is a helper by a pattern of the user (--helper), by its name (is_named_like_allocator), or by structure:
// by what it allocates and who calls it. docs/concepts/analysis.md ("Call sites and helpers") has the rules. They are
// applied to all stacks of the whole recording, whatever is selected (Profile::whole), so that a stack has the same
// call site in every selection.
//
// Standard libraries and the runtime are not helpers but always skipped, by their origin.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analyzer/findings/code_frames.h"

namespace heapprof::findings {

struct HelperOptions {
  bool by_name = true;
  bool by_structure = true;
  std::vector<NamePattern> patterns;  ///< functions that match one are helpers, whatever the rest says
};

struct Helper {
  enum class Reason : std::uint8_t { kName, kStructure, kPattern };
  std::uint32_t function = 0;  ///< in CodeFrames::functions()
  Reason reason = Reason::kName;
  std::uint64_t bytes = 0;        ///< allocated by it, or through other helpers that it calls
  std::uint64_t below_bytes = 0;  ///< allocated in it and in all functions below it; at least `bytes`
  std::uint64_t blocks = 0;       ///< allocated by it or through other helpers
  // By structure only:
  std::uint32_t callers = 0;        ///< functions that call it
  std::uint32_t caller_level = 1;   ///< 2: they call functions that do nothing but call it; 3: likewise
  double largest_caller_share = 0;  ///< of its blocks, 0 to 1
};

/// Why a function is a helper, without its name: "called by 41 functions, the largest of which has 12 % of its
/// blocks; 100 % of the bytes allocated in and below it are allocated by itself or by helpers".
std::string explain(const Helper& helper);

class Helpers {
 public:
  // Rules by structure. If all callers of a function do nothing but call it, the callers of these count instead, of
  // which there must be twice as many.
  static constexpr std::uint32_t kMinCallers = 6;
  static constexpr std::uint32_t kManyCallers = 12;  ///< from here on, one caller may have most of the blocks
  static constexpr std::uint32_t kMaxPositions = 8;  ///< lines of the function that allocate
  static constexpr double kMinDirectShare = 0.9;     ///< of the bytes allocated in and below it: by it or by helpers

  /// Finds the helpers among all functions of the profile. `frames` must have the frames of all stacks that
  /// allocated.
  Helpers(const CodeFrames& frames, const HelperOptions& options);

  /// By bytes, largest first. Only helpers through which blocks were allocated.
  std::span<const Helper> all() const noexcept { return helpers_; }
  /// Whether `function` is a helper.
  bool contains(std::uint32_t function) const noexcept { return is_helper_[function] != 0; }
  /// Whether a stack's innermost frame in `function` is skipped: of a helper, a standard library or the runtime.
  bool skips(std::uint32_t function) const noexcept { return skipped_[function] != 0; }

 private:
  std::vector<std::uint8_t> is_helper_;  ///< by function
  std::vector<std::uint8_t> skipped_;    ///< by function
  std::vector<Helper> helpers_;
};

}  // namespace heapprof::findings
