// Helpers: functions that allocate for their callers, such as xmalloc, g_malloc, luaM_realloc_, or the growth
// function of a string type. The call site of a stack is the first frame above them.
//
// A function is a helper by its name (is_named_like_allocator), by a pattern of the user (--helper), or by structure.
// By structure it must meet all of these, over all stacks of the whole recording, whatever is selected
// (Profile::whole), so that a stack has the same call site in every selection:
//
//   * at least 9/10 of the bytes that are allocated in it and below it are allocated by itself or through other
//     helpers;
//   * at most kMaxPositions of its lines allocate: a parser's main rule or an interpreter's loop has more;
//   * at least kMinCallers functions call it. If its callers do nothing but call it, twice as many of their callers
//     will do: those of `String::append` and `String::insert`, which call `String::grow`;
//   * no caller has more than half of its blocks, or it has kManyCallers callers;
//   * whether its blocks are freed depends on the caller: if nine tenths of the blocks of nearly every caller are
//     never freed although the program frees most blocks, it keeps the memory itself (Cache::put).
//
// Functions that are recognised by name must allocate at least half of these bytes themselves: handle_malloc_stats()
// allocates no memory for others.
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
  static constexpr std::uint32_t kMinCallers = 6;
  static constexpr std::uint32_t kManyCallers = 12;
  static constexpr std::uint32_t kMaxPositions = 8;
  static constexpr double kMinDirectShare = 0.9;

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
