// The unwinder's data of one thread, in one mapping (except for large arrays).
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/trace_format.h"
#include "preload/unwind/cached_paths.h"
#include "preload/unwind/cached_steps.h"
#include "preload/unwind/full_unwind.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/shadow_stack.h"
#include "preload/unwind/stack_bounds.h"

namespace heapprof::unwind {

/// The changes of the context word of a FirstReturn entry.
struct ContextChanges {
  std::uint32_t limit;    ///< of the word nearest to sp that a path of the entry did not read; 0: none is known
  std::uint16_t misses;   ///< since the last change: see count_miss()
  std::uint16_t changes;  ///< how many there were, at most kMaxContextChanges
};

/// The first arrays follow this structure in its mapping; larger ones are mapped when they are needed. While the
/// shadow stack is being rewritten, its length is 0, so that a capture that a longjmp abandons leaves no inconsistent
/// shadow stack.
struct ThreadData : CachedPaths {
  StackBounds bounds;
  FullFrame full;
  FrameArrays* arrays;
  std::uint64_t updates;             ///< number of updates of the shadow stack: for prefix versions
  std::uint64_t paths_version;       ///< cache_version() of the cached paths
  std::uint64_t first_returns_used;  ///< number of ids given to FirstReturn entries
  ContextChanges context_changes[1u << kFirstReturnBits];  ///< of the FirstReturn entries
  // The next four members describe the shadow stack.
  std::uint32_t omitted;         ///< number of outermost frames without a node
  std::uint32_t bounds_version;  ///< bounds.version() at its last update
  Truncation reason;             ///< why it does not begin with the thread's outermost frame; kNone: it does
  std::uint64_t generation;      ///< the module generation of its last update
  /// How many of its frames, from the outermost, the last capture_slow() has found unchanged, or has stored.
  std::uint32_t verified;
  CachedSteps steps;
  LastSteps last_steps;
  FrameArrays first_arrays;  ///< the last member

  /// Returns whether the shadow stack, and the caches that depend on it, can be used in the current module generation
  /// and with the current bounds.
  bool is_valid() const noexcept {
    return generation == unwind::generation() && bounds_version == bounds.version() && omitted == 0;
  }

  void remove_paths() noexcept {
    for (FirstReturn& first : first_returns) first = {};
  }

  /// Removes the paths if they are of another version than the shadow stack.
  void remove_outdated_paths() noexcept {
    const std::uint64_t version = cache_version(generation, bounds_version);
    if (paths_version == version) [[likely]]
      return;
    remove_paths();
    paths_version = version;
  }
};

namespace detail {
extern std::uint32_t max_depth [[gnu::visibility("hidden")]];  ///< Settings::max_depth
}  // namespace detail

inline constexpr std::size_t kThreadDataBytes = 184u << 10;

}  // namespace heapprof::unwind
