// The invalidation epoch: one number that shows whether anything has changed that every remembered call stack depends
// on. Two things can change: the module generation (modules.h), and which foreign stacks are mapped (stack_bounds.h).
// Each of them raises its own number first and the epoch after it. A thread reads the epoch before a capture and
// remembers it with the result; while the epoch is the same, the result needs no other check of these things.
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
