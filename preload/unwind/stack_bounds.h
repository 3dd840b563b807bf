// Which addresses of a stack may be read. The recorder reads no address that it has not found to be mapped.
//
// Each stack has a readable range: pages around the stack pointer that were probed and found readable. It grows page
// by page when the unwinder needs more, up to the first page that is not readable; on real stacks that is the guard
// page of the next stack. A probe is a system call that reads an address and has no other effect: rt_sigprocmask with
// an invalid `how` returns EFAULT if the address is not readable, else EINVAL. It takes 0.2 us, once per page.
//
// A thread's own stack lives as long as the thread, so its range stays valid. Its top is known: the thread pointer in
// threads that glibc starts, __libc_stack_end in the main thread. Other stacks (coroutines, alternate signal stacks)
// may be unmapped at any time. Their ranges are valid only while consecutive captures begin on the same stack and no
// munmap was recorded. docs/concepts/unwinding.md lists the alternatives.
#pragma once

#include <atomic>
#include <cstdint>

namespace heapprof::unwind {

/// Chooses the probe. Call it before the first capture.
void start_probing() noexcept;

/// Invalidates the ranges of all stacks that are not a thread's own. Wait-free.
void invalidate_foreign_stacks() noexcept;

/// Returns whether the byte at `address`, and so its page, can be read.
bool probe(std::uint64_t address) noexcept;

/// The address after the highest byte of the calling thread's own stack, or an address close below that; 0: unknown.
std::uint64_t own_stack_end() noexcept;

/// Returns whether `address` and `higher` appear to be on the calling thread's own stack: they are below its top, and
/// all pages from `address` to the top are readable. A fiber whose stack is a part of the thread's own cannot be
/// distinguished from it.
bool on_own_stack(std::uint64_t address, std::uint64_t higher) noexcept;

/// The known ranges of up to four stacks, for one thread. Zeroed memory is a valid object.
class StackBounds {
 public:
  /// Begins a capture at this stack pointer. Precondition: the memory directly below it is in use.
  void begin(std::uint64_t sp) noexcept {
    crossings_ = 0;
    if (current_ == begin_ && seen_invalidations_ == invalidations() && contains(sp - 8)) [[likely]]
      return;
    begin_elsewhere(sp);
  }

  /// Makes the stack of `sp` the current one, because the unwinder continues on it. Returns false when `sp` cannot be
  /// read, and after kMaxCrossings calls since begin().
  bool cross(std::uint64_t sp) noexcept;

  /// Returns whether `address` is in the known range of the current stack.
  bool contains(std::uint64_t address) const noexcept { return address - low_ < bytes_; }

  /// Returns whether the word at `address`, a multiple of 8, may be read; extends the range upwards if necessary.
  /// Below the stack pointer of begin() or cross() only the known range is readable.
  bool readable(std::uint64_t address) noexcept {
    if (contains(address)) [[likely]]
      return true;
    return grow(address);
  }

  /// Returns whether the current stack is that of begin(). Then its stack pointers are [first_sp(), first_sp() +
  /// bytes()).
  bool at_beginning() const noexcept { return current_ == begin_; }
  std::uint64_t first_sp() const noexcept { return low_ + 8; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Increases whenever a range or a part of one is dropped. Addresses that were remembered under an older version
  /// must not be read.
  std::uint32_t version() const noexcept { return version_; }

  /// Drops all ranges. Call it before another thread uses the object.
  void reset() noexcept;

 private:
  struct Range {
    std::uint64_t low;    ///< the beginning of a page; an unused range is all 0
    std::uint64_t high;   ///< [low, high) is readable
    std::uint64_t limit;  ///< addresses from here on are not read
    bool own;             ///< the thread's own stack
  };
  static constexpr unsigned kRanges = 4;
  static constexpr unsigned kMaxCrossings = 32;

  static std::uint32_t invalidations() noexcept;
  [[gnu::noinline]] void begin_elsewhere(std::uint64_t sp) noexcept;
  bool find(std::uint64_t address) noexcept;
  void add(std::uint64_t address) noexcept;
  void restart_range(std::uint64_t address) noexcept;
  static bool extend(Range& range, std::uint64_t address) noexcept;
  [[gnu::noinline]] bool grow(std::uint64_t address) noexcept;
  void select(std::uint32_t index) noexcept {
    current_ = index;
    low_ = ranges_[index].low;
    bytes_ = ranges_[index].high - low_;
  }

  std::uint64_t low_;  ///< of the current range, set by select()
  std::uint64_t bytes_;
  Range ranges_[kRanges];
  std::uint32_t current_;  ///< index of the current range
  std::uint32_t begin_;    ///< index of the range where the last capture began
  std::uint32_t crossings_;
  std::uint32_t victim_;  ///< index of the last range that was replaced
  std::uint32_t version_;
  std::uint32_t seen_invalidations_;
};

namespace detail {
extern std::atomic<std::uint32_t> foreign_stack_invalidations;
}

inline std::uint32_t StackBounds::invalidations() noexcept {
  return detail::foreign_stack_invalidations.load(std::memory_order_relaxed);
}

}  // namespace heapprof::unwind
