// Cached paths: the stacks that a thread captured recently. A capture looks here first.
//
// A path leads from the beginning of a stack, (pc, sp), to a frame of the shadow stack, its anchor frame. It contains
// the words of the stack that the steps of the path read. While these words, and all words that the steps from the
// anchor outwards read, are unchanged, the stack is the same and its node is known (docs/concepts/unwinding.md).
//
// The slot of the first return address is found by (pc, sp), and the path by that slot, the return address in it, and
// one more word if a caller has several contexts. find() is the fast path of most events. To keep it short,
// conditions that rarely change are compared as one number each: the invalidation epoch, and the prefix version of
// the anchor. Words are compared two and four at a time; lists are padded with words that are always unchanged.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/ids.h"
#include "preload/arch/arch.h"
#include "preload/unwind/invalidation.h"
#include "preload/unwind/stack_word.h"

namespace heapprof::unwind {

/// The words by which the paths of stacks that begin at (pc, sp) are found, as distances of their slots from sp, in
/// bytes.
struct FirstReturn {
  ProgramCounter pc;
  StackPointer sp;
  std::uint32_t slot;  ///< of the first return address
  /// Of the context word: a word in which paths with the same first return address have differed. `slot`: none yet.
  std::uint32_t context;
  std::uint64_t id;  ///< identifies this entry to its paths: never reused; 0: empty
};
static_assert(sizeof(FirstReturn) == 32);

inline constexpr std::uint32_t kPathWords = 10;

struct alignas(64) CachedPath {
  std::uint64_t first_return;    ///< FirstReturn::id; 0: empty
  std::uint64_t fp;              ///< the frame register with which the stack begins
  std::uint64_t fp_mask;         ///< all ones if a step or the anchor uses fp; 0 if any fp matches
  std::uint32_t anchor;          ///< index of the anchor in the shadow stack
  NodeId node;                   ///< of the whole stack
  std::uint64_t prefix_version;  ///< of the anchor
  // The next three members identify the anchor after its prefix version has changed.
  StackPointer anchor_sp;
  std::uint64_t anchor_fp;
  std::uint64_t anchor_identity;  ///< FrameIdentity::bits()
  std::uint32_t steps;
  std::uint32_t word_pairs;  ///< not 0; if the number of words is odd, the last word is stored twice
  StackWord words[kPathWords];

  /// Returns null if fp matches and all words are unchanged; else the first changed word, or a word if fp differs.
  [[gnu::always_inline]] const StackWord* first_difference(const arch::EntryRegisters& entry) const noexcept {
    const StackWord* at = words;
    if (((fp ^ entry.fp) & fp_mask) != 0) return at;
    for (std::uint32_t left = word_pairs; left != 0; --left, at += 2) {
      if (!at[0].unchanged()) return at;
      if (!at[1].unchanged()) return at + 1;
    }
    return nullptr;
  }
};
static_assert(sizeof(CachedPath) == 256);

/// The prefix version of a frame of the shadow stack identifies the contents of this frame and all outer ones. The
/// upper part increases whenever frames are replaced; the lower part is the index at which the words of these frames
/// end.
inline constexpr unsigned kPrefixVersionShift = 20;
constexpr std::uint32_t words_end_of(std::uint64_t prefix_version) noexcept {
  return static_cast<std::uint32_t>(prefix_version) & ((1u << kPrefixVersionShift) - 1);
}

inline constexpr std::uint32_t kFirstReturnBits = 9;
inline constexpr std::uint32_t kCachedPathBits = 8;
/// Paths with the same first return address and context word are at up to this many places.
inline constexpr std::uint32_t kPathPlaces = 3;

/// The paths of one thread, and what find() needs of the thread's shadow stack.
struct CachedPaths {
  std::uint64_t epoch;     ///< the invalidation epoch in which all members are valid; kNoEpoch: find() finds nothing
  std::uint64_t first_sp;  ///< [first_sp, first_sp + sp_bytes): the stack pointers for which they are valid
  std::uint64_t sp_bytes;
  const StackWord* words;                ///< of the shadow stack
  const std::uint64_t* prefix_versions;  ///< of its frames
  std::uint32_t length;                  ///< number of its frames; 0 while it is being rewritten
  /// The path of the stack for which find() has just failed, if only the prefix version of its anchor differs.
  CachedPath* unanchored;
  // Adjacent, because one call faults in both (first_return_for()).
  FirstReturn first_returns[1u << kFirstReturnBits];
  CachedPath paths[1u << kCachedPathBits];

  static std::size_t first_return_index(const arch::EntryRegisters& entry) noexcept {
    return scramble(to_address(entry.pc) + to_address(entry.sp) * 8) >> (32 - kFirstReturnBits);
  }
  /// The first of two places for paths of `first_return`; the second one holds the path that the first one held
  /// before. `value`: value_of(). Paths that differ from the one at this place are found by the value of the first
  /// word that differs, and `place`, which is 1 for these and 2 for those that also differ from the path there.
  CachedPath* places_of(std::uint64_t first_return, std::uint64_t value, std::uint32_t place) noexcept {
    return paths + std::size_t{scramble((first_return ^ value) + place) >> (33 - kCachedPathBits)} * 2;
  }
  /// The value by which the path of the stack that begins at `sp`, which is first.sp, is found: its first return
  /// address and its context word, so that each context of a caller has a place.
  [[gnu::always_inline]] static std::uint64_t value_of(const FirstReturn& first, StackPointer sp) noexcept {
    return load_word(to_address(sp) + first.slot) + 2 * load_word(to_address(sp) + first.context);
  }
  /// Fibonacci hashing: use the upper bits of the result.
  static constexpr std::uint32_t scramble(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key) * 0x9e3779b1;
  }

  /// Returns whether the first `end` words of the shadow stack are unchanged. `end` is not 0.
  [[gnu::always_inline]] bool words_unchanged(std::uint32_t end) const noexcept {
    const StackWord* const stop = words;
    const StackWord* word = stop + end;
    do {
      if (!word[-1].unchanged() || !word[-2].unchanged() || !word[-3].unchanged() || !word[-4].unchanged())
        return false;
      word -= kWordStride;
    } while (word > stop);
    return true;
  }

  /// Returns the one of two adjacent places that has a path of `first_return`; null if none has.
  static CachedPath* path_at(CachedPath* place, std::uint64_t first_return) noexcept {
    if (place->first_return == first_return) [[likely]]
      return place;
    ++place;
    return place->first_return == first_return ? place : nullptr;
  }

  /// Returns the path of the stack that begins with `entry`; null if it is not at the first place, or may have
  /// changed.
  [[gnu::always_inline]] const CachedPath* find(const arch::EntryRegisters& entry) noexcept {
    if (epoch != invalidation_epoch()) return nullptr;
    if (to_address(entry.sp) - first_sp >= sp_bytes) return nullptr;
    const FirstReturn& first = first_returns[first_return_index(entry)];
    if (first.pc != entry.pc || first.sp != entry.sp) return nullptr;
    const std::uint64_t id = first.id;
    CachedPath* const path = path_at(places_of(id, value_of(first, entry.sp), 0), id);
    if (path == nullptr || path->first_difference(entry) != nullptr) return nullptr;
    if (path->anchor >= length || prefix_versions[path->anchor] != path->prefix_version) {
      unanchored = path;
      return nullptr;
    }
    return words_unchanged(words_end_of(path->prefix_version)) ? path : nullptr;
  }
};

struct CachedStep;
struct ThreadData;

/// After find() has failed: also finds paths at other places, and paths to anchors whose prefix version has changed,
/// by comparing the anchors themselves.
const CachedPath* find_path_slow(ThreadData& data, const arch::EntryRegisters& entry) noexcept;

/// Adds the path of `count` steps that were just taken from `entry` to the frame `anchor` of the shadow stack.
/// Precondition: find_path_slow() has returned null for this stack.
void cache_path_of_steps(ThreadData& data, const arch::EntryRegisters& entry, CachedStep* const* steps,
                         std::uint32_t count, std::uint32_t anchor, NodeId node) noexcept;

/// Adds a path without steps, for a stack that is the shadow stack. find_path_slow() has not been called for it.
void cache_path_of_shadow_stack(ThreadData& data, const arch::EntryRegisters& entry) noexcept;

}  // namespace heapprof::unwind
