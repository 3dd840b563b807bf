#pragma once

#include <cstdint>

namespace heapprof {

/// Addresses from `begin` to before `end`.
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t bytes() const noexcept { return end - begin; }
  bool operator==(const AddressRange&) const = default;
};

}  // namespace heapprof
