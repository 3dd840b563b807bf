// Short-lived allocations by stack: blocks that are freed soon after they were allocated. A reused buffer, an array
// on the stack or a reserved container would save the allocator's work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heapprof::model {

struct ChurnCosts {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t freed = 0;
  std::uint64_t short_lived = 0;  ///< freed within the limit
  std::uint64_t short_lived_bytes = 0;
  std::uint64_t temporary = 0;  ///< freed before the next allocation of their thread
  /// Sum over the freed blocks. That of 213,504 blocks that live for a day has more than 64 bits.
  __extension__ unsigned __int128 lifetime_ns = 0;

  ChurnCosts& operator+=(const ChurnCosts& other) noexcept {
    allocations += other.allocations;
    allocated_bytes += other.allocated_bytes;
    freed += other.freed;
    short_lived += other.short_lived;
    short_lived_bytes += other.short_lived_bytes;
    temporary += other.temporary;
    lifetime_ns += other.lifetime_ns;
    return *this;
  }
  /// Precondition: freed is not 0.
  std::uint64_t mean_lifetime_ns() const noexcept { return static_cast<std::uint64_t>(lifetime_ns / freed); }
};

class Churn {
 public:
  /// `short_ns`: the longest lifetime that counts as short.
  explicit Churn(std::uint64_t short_ns) : short_ns_(short_ns) {}

  void allocated(std::uint32_t node, std::uint64_t size) {
    ChurnCosts& costs = costs_of(node);
    ++costs.allocations;
    costs.allocated_bytes += size;
  }
  void freed(std::uint32_t node, std::uint64_t size, std::uint64_t lifetime_ns, bool temporary) {
    ChurnCosts& costs = costs_of(node);
    ++costs.freed;
    costs.temporary += temporary;
    costs.lifetime_ns += lifetime_ns;
    if (lifetime_ns > short_ns_) return;
    ++costs.short_lived;
    costs.short_lived_bytes += size;
  }

  std::uint64_t short_ns() const noexcept { return short_ns_; }
  const std::vector<ChurnCosts>& costs() const noexcept { return costs_; }  ///< by node, up to the last that has any

 private:
  ChurnCosts& costs_of(std::uint32_t node) {
    if (node >= costs_.size()) [[unlikely]]
      costs_.resize(node + std::size_t{1});
    return costs_[node];
  }

  std::uint64_t short_ns_;
  std::vector<ChurnCosts> costs_;
};

}  // namespace heapprof::model
