// How much processor time snapshots may take: 0.5 % of the time since the recorder started, and 5 ms in addition, so
// that short programs have snapshots too. One call takes at most kMaxSliceNs by the clock; a snapshot that needs more
// is continued later.
#pragma once

#include <cstdint>

namespace heapprof::recorder {

class SnapshotBudget {
 public:
  static constexpr std::uint64_t kMaxSliceNs = 50'000'000;
  static constexpr std::uint64_t kInitialNs = 5'000'000;
  static constexpr std::uint64_t kElapsedPerSpent = 200;  ///< 0.5 %

  /// How long a snapshot of `resident_bytes`, or what is left of one, may take now, `elapsed_ns` after the start. 0:
  /// none may be taken, because it would probably not be finished; its cost is estimated by that of the last one.
  std::uint64_t slice_ns(std::uint64_t elapsed_ns, std::uint64_t resident_bytes) const noexcept {
    const std::uint64_t budget_ns = kInitialNs + elapsed_ns / kElapsedPerSpent;
    if (spent_ns_ + estimate_ns(resident_bytes) > budget_ns) return 0;
    const std::uint64_t left_ns = budget_ns - spent_ns_;
    return left_ns < kMaxSliceNs ? left_ns : kMaxSliceNs;
  }

  /// A snapshot, or a part of one, took `ns` of processor time.
  void spend(std::uint64_t ns) noexcept { spent_ns_ += ns; }
  /// All parts of a snapshot of `resident_bytes` took `ns` of processor time.
  void finished(std::uint64_t resident_bytes, std::uint64_t ns) noexcept {
    fixed_ns_ = ns < kFirstFixedNs ? ns : kFirstFixedNs;
    const std::uint64_t mebibytes = resident_bytes >> 20;
    if (mebibytes != 0) ns_per_mebibyte_ = (ns - fixed_ns_) / mebibytes + 1;
  }

  /// At most kMaxSliceNs.
  std::uint64_t estimate_ns(std::uint64_t resident_bytes) const noexcept {
    const std::uint64_t mebibytes = resident_bytes >> 20;
    if (mebibytes > kMaxSliceNs / ns_per_mebibyte_) return kMaxSliceNs;
    const std::uint64_t ns = fixed_ns_ + mebibytes * ns_per_mebibyte_;
    return ns < kMaxSliceNs ? ns : kMaxSliceNs;
  }

 private:
  static constexpr std::uint64_t kFirstFixedNs = 300'000;

  std::uint64_t spent_ns_ = 0;
  std::uint64_t fixed_ns_ = kFirstFixedNs;
  std::uint64_t ns_per_mebibyte_ = 5'000;
};

}  // namespace heapprof::recorder
