// The invalidation epoch: one number that changes with everything on which all remembered call stacks depend. That is
// the module generation (modules.h), and which foreign stacks are mapped (stack_bounds.h). After a change of one of
// these, its own number is raised first, and then the epoch. A thread reads the epoch before a capture and stores it
// with the result; while the epoch is the same, the two need not be checked.
#pragma once

#include <atomic>
#include <cstdint>

namespace heapprof::unwind {

namespace detail {
extern std::atomic<std::uint64_t> invalidation_epoch [[gnu::visibility("hidden")]];
}  // namespace detail

/// A value that the epoch never has.
inline constexpr std::uint64_t kNoEpoch = ~std::uint64_t{0};

inline std::uint64_t invalidation_epoch() noexcept {
  return detail::invalidation_epoch.load(std::memory_order_acquire);
}
inline void raise_invalidation_epoch() noexcept {
  detail::invalidation_epoch.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace heapprof::unwind
