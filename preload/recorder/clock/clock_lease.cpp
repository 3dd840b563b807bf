#include "preload/recorder/clock/clock_lease.h"

namespace heapprof::recorder {

constinit std::uint64_t g_clock_lease[2] = {};

namespace {

/// A thread that has held the lease for more runs than this may try again without waiting.
constexpr std::uint32_t kShortLeaseRuns = 8;
constexpr std::uint32_t kMaxWaitRuns = 511;

bool acquire(LeaseHolder self) noexcept {
  std::uint64_t nobody = 0;
  return __atomic_compare_exchange_n(&g_clock_lease[0], &nobody, static_cast<std::uint64_t>(self), false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

}  // namespace

bool keep_or_acquire_clock_lease(LeaseHolder self, LeaseHistory& history) noexcept {
  if (holds_clock_lease(self)) {
    ++history.runs;
    return true;
  }
  if (history.runs != 0) {
    const std::uint32_t last_wait = history.last_wait;
    history.last_wait = history.runs > kShortLeaseRuns ? 0
                        : last_wait < kMaxWaitRuns     ? last_wait * 2 + 1
                                                       : kMaxWaitRuns;
    history.wait = history.last_wait;
    history.runs = 0;
  }
  if (history.wait != 0) {
    --history.wait;
    return false;
  }
  if (!acquire(self)) return false;
  history.runs = 1;
  return true;
}

}  // namespace heapprof::recorder
