// Helpers: functions that allocate for their callers, such as xmalloc, g_malloc, luaM_realloc_, or the growth
// function of a string type. The call site of a stack is the first frame above them.
//
// A function is a helper by its name (is_named_like_allocator), by a pattern of the user (--helper), or by structure.
// By structure it must meet all of these, over all stacks of the profile:
//
//   * at least 9/10 of the bytes that are allocated in it and below it are allocated by itself or through other
//     helpers;
//   * at most kMaxPositions of its call sites allocate: a parser's main rule or an interpreter's loop has more;
//   * at least kMinCallers functions call it. A caller that allocates only through it counts with its own callers, if
//     these are more: `String::append` above `String::grow`;
//   * no caller has more than half of its blocks, or it has kManyCallers callers;
//   * whether its blocks are freed depends on the caller: if nine tenths of the blocks of nearly every caller are
//     never freed although the program frees most blocks, it keeps the memory itself (Cache::put).
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
  std::uint32_t callers = 0;      ///< functions that call it, or call functions that do nothing but call it
  std::uint64_t largest_caller_blocks = 0;
};

/// Why a function is a helper, without its name: "called by 41 functions, the largest of which has 12 % of its
/// blocks; 100 % of the bytes in and below it are its own".
std::string explain(const Helper& helper);

class Helpers {
 public:
  static constexpr std::uint32_t kMinCallers = 4;
  static constexpr std::uint32_t kManyCallers = 12;
  static constexpr std::uint32_t kMaxPositions = 8;

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
