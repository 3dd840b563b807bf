// Which of the interpreter's memory a thread may read: pages that were probed and found readable.
//
// The interpreter's pointers are valid wherever its own code calls a function. This is the second line of defence,
// for interpreters that differ from the layout of their version, and for states that their owner has freed. Pages are
// forgotten when the program unmaps memory or loads code; what libc unmaps by itself is not noticed.
#pragma once

#include <cstdint>

#include "preload/unwind/invalidation.h"
#include "preload/unwind/stack_bounds.h"

namespace heapprof::python {

/// For one thread. Zeroed memory is a valid object.
class ReadablePages {
 public:
  /// Call it once per event, before the other functions.
  void begin_event() noexcept {
    const std::uint64_t epoch = unwind::invalidation_epoch();
    if (epoch != epoch_) [[unlikely]]
      forget(epoch);
  }

  /// Whether begin_event() would change nothing.
  bool is_current() const noexcept { return epoch_ == unwind::invalidation_epoch(); }

  /// Whether an object of the interpreter with this size, which is not 0, can be at `address`.
  [[gnu::always_inline]] bool object(std::uint64_t address, std::uint64_t bytes) noexcept {
    return address % 8 == 0 && range(address, bytes);
  }

  /// Whether these bytes, at least one, can be read.
  [[gnu::always_inline]] bool range(std::uint64_t address, std::uint64_t bytes) noexcept {
    const std::uint64_t page = address / kPage;
    return is_known(page) && (address + bytes - 1) / kPage == page ? true : all_readable(address, bytes);
  }

 private:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kEnd = std::uint64_t{1} << 47;
  static constexpr std::uint32_t kSets = 512;
  using Set = std::uint64_t[2];  ///< the second page is the one that the first one has replaced

  /// Page 0 is none that can be read.
  bool is_known(std::uint64_t page) const noexcept {
    const Set& set = sets_[page % kSets];
    return page != 0 && (set[0] == page || set[1] == page);
  }

  [[gnu::noinline]] bool all_readable(std::uint64_t address, std::uint64_t bytes) noexcept {
    if (address - kPage >= kEnd || bytes > kEnd) return false;
    const std::uint64_t last = (address + bytes - 1) / kPage;
    for (std::uint64_t page = address / kPage; page <= last; ++page)
      if (!is_known(page) && !add(page)) return false;
    return true;
  }

  bool add(std::uint64_t page) noexcept {
    if (!unwind::probe(page * kPage)) return false;
    Set& set = sets_[page % kSets];
    set[1] = set[0];
    set[0] = page;
    return true;
  }

  [[gnu::noinline]] void forget(std::uint64_t epoch) noexcept {
    __builtin_memset(sets_, 0, sizeof sets_);
    epoch_ = epoch;
  }

  std::uint64_t epoch_;
  alignas(16) Set sets_[kSets];  // no set is in two cache lines
};

}  // namespace heapprof::python
