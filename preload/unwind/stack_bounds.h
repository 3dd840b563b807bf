// Which addresses of a stack may be read. No address is read that was not found to be mapped.
//
// A stretch of stack is known as the range of pages, around the stack pointer, that were probed and found
// readable; it grows page by page as the unwinder asks for more, upwards to the first page that cannot be
// read, which on real stacks is the guard page of the next one. The probe is a system call that reads an
// address and can do nothing else: rt_sigprocmask with a `how` that does not exist gives EFAULT where
// there is no memory, EINVAL where there is. It costs 0.2 us a page, once; /proc/self/maps would cost 30 us
// and more, could be missing (chroot, seccomp, no descriptors left), and needs a descriptor.
//
// A thread's own stack, and the main stack, live as long as the thread, so what was found holds. They are
// told by their top: the thread pointer lies in the top of every stack that glibc starts a thread on, and
// __libc_stack_end marks the main one; nothing beyond these is ever read. Other stacks (coroutines,
// alternate signal stacks) may be unmapped and mapped anew while nobody looks: what is known of them holds
// only as long as one capture after another begins on the same one, and no munmap was seen.
#pragma once

#include <atomic>
#include <cstdint>

namespace heapprof::unwind {

/// Before the first capture: chooses the probe.
void start_probing() noexcept;

/// Stacks that are not a thread's own have to be looked at again.
void forget_foreign_stacks() noexcept;

/// The byte at `address`, hence its page, can be read.
bool probe(std::uint64_t address) noexcept;

/// `address` and `higher` are on the calling thread's own stack, for all that can be seen: they lie below its top,
/// and there is no gap from `address` on. A fiber whose stack is a part of the thread's own cannot be told from it.
bool on_own_stack(std::uint64_t address, std::uint64_t higher) noexcept;

class StackBounds {
 public:
  /// A capture begins with this stack pointer: what lies just below it is in use.
  void begin(std::uint64_t sp) noexcept {
    crossings_ = 0;
    if (index_ == begun_ && seen_ == forgotten() && contains(sp - 8)) [[likely]] return;
    begin_elsewhere(sp);
  }

  /// The unwinder crosses to another stack: makes the one of `sp` current. False when it cannot be
  /// read, and after kMaxCrossings since begin().
  bool cross(std::uint64_t sp) noexcept;

  /// `address` lies in what is known of the current stack.
  bool contains(std::uint64_t address) const noexcept { return address - low_ < bytes_; }

  /// The word at `address`, a multiple of 8, may be read. Below the stack pointer of begin() or cross()
  /// only what was met before is.
  bool readable(std::uint64_t address) noexcept {
    if (contains(address)) [[likely]] return true;
    return grow(address);
  }

  /// The current stack is still that of begin(). Its stack pointers begin with first_sp(), of bytes() bytes.
  bool at_beginning() const noexcept { return index_ == begun_; }
  std::uint64_t first_sp() const noexcept { return low_ + 8; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Changes whenever something known was dropped: addresses remembered under another number must not be
  /// read any more.
  std::uint32_t epoch() const noexcept { return epoch_; }

  /// The bounds of another thread from here on.
  void forget() noexcept;

 private:
  struct Stretch {
    std::uint64_t low;    ///< of a page; all 0: unused
    std::uint64_t high;   ///< found readable: [low, high)
    std::uint64_t limit;  ///< nothing at or beyond is read
    bool own;             ///< lives as long as the thread
  };
  static constexpr unsigned kStretches = 4;
  static constexpr unsigned kMaxCrossings = 32;

  static std::uint32_t forgotten() noexcept;
  [[gnu::noinline]] void begin_elsewhere(std::uint64_t sp) noexcept;
  bool find(std::uint64_t address) noexcept;
  void make(std::uint64_t address) noexcept;
  void look_again(std::uint64_t address) noexcept;
  static bool extend(Stretch& stretch, std::uint64_t address) noexcept;
  [[gnu::noinline]] bool grow(std::uint64_t address) noexcept;
  void select(std::uint32_t index) noexcept {
    index_ = index;
    low_ = stretches_[index].low;
    bytes_ = stretches_[index].high - low_;
  }

  std::uint64_t low_;    ///< of the current stretch, as select() left it
  std::uint64_t bytes_;
  Stretch stretches_[kStretches];
  std::uint32_t index_;   ///< the current one
  std::uint32_t begun_;   ///< where the last capture began
  std::uint32_t crossings_;
  std::uint32_t victim_;  ///< the next to be replaced
  std::uint32_t epoch_;
  std::uint32_t seen_;    ///< the forget_foreign_stacks that were noticed
};

namespace detail {
extern std::atomic<std::uint32_t> foreign_stacks_forgotten;
}

inline std::uint32_t StackBounds::forgotten() noexcept {
  return detail::foreign_stacks_forgotten.load(std::memory_order_relaxed);
}

}  // namespace heapprof::unwind
