// The stacks that a thread met of late, as paths: what is looked at before anything else when a stack is asked for.
//
// A path is what led from one place (pc, sp) to a remembered frame (unwinder.cpp): the words of the stack that were
// read on the way. While they and all that was read from that frame outwards hold their values, the stack is the
// same, and its node known. docs/concepts/unwinding.md, has the argument.
//
// The two tables are found by what changes least: the first by (pc, sp) tells where the first return address lies,
// the second by that return address too, so that the callers of operator new are told apart without trying one after
// the other.
//
// find() is all that an event of a busy program costs its stack, so it is written for few instructions: conditions
// that change seldom are one number (world), a remembered frame is known again by one number (mark), and words are
// compared two and four at a time, for which their lists are filled up with words that hold anyway.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/ids.h"
#include "preload/arch/arch.h"

namespace heapprof::unwind {

namespace detail {
/// Rises whenever something that every remembered stack depends on may have changed: modules, or stacks that are no
/// thread's own. After the number of the thing itself.
extern std::atomic<std::uint64_t> world [[gnu::visibility("hidden")]];
}  // namespace detail

/// No value that detail::world ever has.
inline constexpr std::uint64_t kNoWorld = ~std::uint64_t{0};

/// A word of the stack that a rule read.
struct Word {
  std::uint64_t address;
  std::uint64_t value;

  bool holds() const noexcept { return *reinterpret_cast<const volatile std::uint64_t*>(address) == value; }
};

/// Words of a list are compared so many at a time, from the end, so it may be read by so many less one before its
/// beginning.
inline constexpr std::uint32_t kWordStride = 4;

/// Where the first return address is when a stack begins at (pc, sp).
struct FirstReturn {
  std::uint64_t pc;
  std::uint64_t sp;
  std::uint64_t slot;
  std::uint64_t number;  ///< names it to its paths: never used twice, 0: empty
};

inline constexpr std::uint32_t kPathWords = 10;

struct alignas(64) KnownPath {
  std::uint64_t first;  ///< FirstReturn::number
  std::uint64_t fp;     ///< the frame register with which it begins,
  std::uint64_t fp_mask;  ///< if it matters: all ones when a step reads it or the joint is one with that, else 0
  std::uint32_t joint;  ///< the remembered frame that it leads to, by its index
  NodeId node;          ///< of the stack
  std::uint64_t mark;   ///< of the joint
  std::uint64_t joint_sp;  ///< what tells the joint when its mark has changed
  std::uint64_t joint_fp;
  std::uint64_t joint_name;
  std::uint32_t steps;
  std::uint32_t pairs;  ///< of words, above 0: of an odd number the last word stands twice
  Word word[kPathWords];

  /// The frame register is right, and all words hold.
  [[gnu::always_inline]] bool begins_so(const arch::EntryRegisters& entry) const noexcept {
    if (((fp ^ entry.fp) & fp_mask) != 0) return false;
    const Word* at = word;
    for (std::uint32_t left = pairs; left != 0; --left, at += 2)
      if (!at[0].holds() || !at[1].holds()) return false;
    return true;
  }
};
static_assert(sizeof(KnownPath) == 256);

/// The mark of a remembered frame: what its memory and that of all outer ones is now, told by a number that rises
/// whenever frames are remembered anew; below it, where the words of frame and outer ones end.
inline constexpr unsigned kMarkShift = 20;
constexpr std::uint32_t words_of_mark(std::uint64_t mark) noexcept {
  return static_cast<std::uint32_t>(mark) & ((1u << kMarkShift) - 1);
}

inline constexpr std::uint32_t kFirstReturnBits = 9;
inline constexpr std::uint32_t kKnownPathBits = 8;

struct KnownPaths {
  std::uint64_t world;         ///< the value of detail::world for which all this holds
  std::uint64_t first_sp;      ///< stack pointers for which it does: those of the stack of the last capture
  std::uint64_t sp_bytes;
  const Word* words;           ///< of the remembered stack
  const std::uint64_t* marks;  ///< of its frames
  std::uint32_t length;        ///< how many they are; 0 while they are being rewritten
  FirstReturn first_returns[1u << kFirstReturnBits];
  KnownPath paths[1u << kKnownPathBits];

  static std::size_t first_return_index(std::uint64_t pc, std::uint64_t sp) noexcept {
    return scramble(pc + sp * 8) >> (32 - kFirstReturnBits);
  }
  /// Of the first of two places, the second of them for the path that came before.
  static std::size_t path_index(std::uint64_t number, std::uint64_t returns_to) noexcept {
    return std::size_t{scramble(number ^ returns_to) >> (33 - kKnownPathBits)} * 2;
  }
  /// Fibonacci hashing: the upper bits count.
  static constexpr std::uint32_t scramble(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key) * 0x9e3779b1;
  }

  /// All words of the remembered stack from its outermost one up to the `end`th hold. `end` is above 0.
  [[gnu::always_inline]] bool stand(std::uint32_t end) const noexcept {
    const Word* const stop = words;
    const Word* word = stop + end;
    do {
      if (!word[-1].holds() || !word[-2].holds() || !word[-3].holds() || !word[-4].holds()) return false;
      word -= kWordStride;
    } while (word > stop);
    return true;
  }

  /// The path of the stack that begins with `entry`; null when none is known, or none is sure to hold.
  [[gnu::always_inline]] const KnownPath* find(const arch::EntryRegisters& entry) const noexcept {
    if (world != detail::world.load(std::memory_order_acquire)) return nullptr;
    if (entry.sp - first_sp >= sp_bytes) return nullptr;
    const FirstReturn& first = first_returns[first_return_index(entry.pc, entry.sp)];
    if (first.pc != entry.pc || first.sp != entry.sp) return nullptr;
    const std::uint64_t number = first.number;
    const std::uint64_t returns_to = *reinterpret_cast<const volatile std::uint64_t*>(first.slot);
    const KnownPath* path = paths + path_index(number, returns_to);
    if (path->first != number || !path->begins_so(entry)) {
      ++path;
      if (path->first != number || !path->begins_so(entry)) return nullptr;
    }
    if (path->joint >= length || marks[path->joint] != path->mark) return nullptr;
    return stand(words_of_mark(path->mark)) ? path : nullptr;
  }
};

}  // namespace heapprof::unwind
