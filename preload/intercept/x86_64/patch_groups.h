// Groups of patches that are near each other. Branches into the patches of an object are searched for group by group:
// in the code between the groups, nearly every call would have to be looked at.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::intercept {

struct AddressRange {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Ranges that together contain all patches; ascending, and none overlaps another one.
class PatchGroups {
 public:
  static constexpr std::size_t kMaxGroups = 4;
  static constexpr std::uint64_t kMaxGap = 32u << 10;  ///< between two patches of a group, but for the last group

  /// `range_of(i)`: the bytes of the i-th of `count` patches, in any order.
  template <typename RangeOf>
  PatchGroups(std::size_t count, RangeOf&& range_of) noexcept {
    for (std::uint64_t from = 0;;) {
      AddressRange first{UINT64_MAX, 0};
      for (std::size_t i = 0; i != count; ++i)
        if (const AddressRange range = range_of(i); range.begin >= from && range.begin < first.begin) first = range;
      if (first.begin == UINT64_MAX) return;
      AddressRange& group = groups_[count_++] = first;
      const bool last = count_ == kMaxGroups;
      for (bool grown = true; grown;) {
        grown = false;
        for (std::size_t i = 0; i != count; ++i) {
          const AddressRange range = range_of(i);
          if (range.begin < group.begin || range.end <= group.end) continue;
          if (!last && range.begin > group.end + kMaxGap) continue;
          group.end = range.end;
          grown = true;
        }
      }
      from = group.end;
    }
  }

  const AddressRange* begin() const noexcept { return groups_; }
  const AddressRange* end() const noexcept { return groups_ + count_; }

 private:
  AddressRange groups_[kMaxGroups] = {};
  std::size_t count_ = 0;
};

}  // namespace heapprof::intercept
