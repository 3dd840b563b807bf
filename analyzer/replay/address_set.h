// A set of addresses whose maximum size is known in advance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/base/mix_bits.h"

namespace heapprof::replay {

/// Open addressing with linear probing. Memory: 13 bytes for each address that there is room for.
class AddressSet {
 public:
  /// Precondition of insert(): there were at most `room` different addresses.
  explicit AddressSet(std::size_t room) : slots_(room + room / 8 * 5 + 8) {}

  void prefetch(std::uint64_t address) const noexcept { __builtin_prefetch(&slots_[slot_of(address)]); }

  /// Address 0 is in no set.
  void insert(std::uint64_t address) noexcept {
    if (address == 0) return;
    std::size_t slot = slot_of(address);
    while (slots_[slot] != 0 && slots_[slot] != address) slot = after(slot);
    slots_[slot] = address;
  }
  bool contains(std::uint64_t address) const noexcept {
    for (std::size_t slot = slot_of(address); slots_[slot] != 0; slot = after(slot))
      if (slots_[slot] == address) return true;
    return false;
  }

 private:
  std::size_t slot_of(std::uint64_t address) const noexcept {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>(static_cast<Wide>(mix_bits(address)) * slots_.size() >> 64);
  }
  std::size_t after(std::size_t slot) const noexcept { return slot + 1 == slots_.size() ? 0 : slot + 1; }

  std::vector<std::uint64_t> slots_;  ///< 0: empty
};

}  // namespace heapprof::replay
