// Finds entries of a vector by their contents: an open-addressing hash table of indices, 4 bytes each, at most half
// full. It does not grow. A recording chooses the contents, but not which of them are in one place.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/base/mix_bits.h"

namespace heapprof::model {

class IndexTable {
 public:
  /// At most `max_entries` can be added.
  explicit IndexTable(std::size_t max_entries) : slots_(std::bit_ceil(2 * max_entries + 2), kFree) {}

  /// The index that was added with the same two numbers and for which `matches(index)` is true; else the one that
  /// `add()` returns, which is added. `matches` is also asked about indices with other numbers.
  template <typename Matches, typename Add>
  std::uint32_t find_or_add(std::uint64_t first, std::uint64_t second, Matches&& matches, Add&& add) {
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t i = mix_bits(mix_bits(kHashSeed ^ first) + second) & mask;; i = (i + 1) & mask) {
      if (slots_[i] == kFree) return slots_[i] = add();
      if (matches(slots_[i])) return slots_[i];
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0xffffffff;
  std::vector<std::uint32_t> slots_;
};

}  // namespace heapprof::model
