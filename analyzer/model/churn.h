// Blocks that are given back soon after they were asked for, by stack: work for the allocator that a buffer kept, an
// array on the stack or a reservation ahead would save.
#pragma once

#include <cstdint>
#include <vector>

namespace heapprof::model {

struct ChurnCosts {
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t released = 0;
  std::uint64_t short_lived = 0;        ///< released within the limit
  std::uint64_t short_lived_bytes = 0;
  std::uint64_t temporary = 0;          ///< released before their thread's next allocation
  std::uint64_t lifetime_ns = 0;        ///< sum over those released

  ChurnCosts& operator+=(const ChurnCosts& other) noexcept {
    allocations += other.allocations;
    allocated_bytes += other.allocated_bytes;
    released += other.released;
    short_lived += other.short_lived;
    short_lived_bytes += other.short_lived_bytes;
    temporary += other.temporary;
    lifetime_ns += other.lifetime_ns;
    return *this;
  }
};

class Churn {
 public:
  /// `short_ns`: the longest lifetime that counts as short.
  Churn(std::size_t nodes, std::uint64_t short_ns) : short_ns_(short_ns), costs_(nodes) {}

  void allocated(std::uint32_t node, std::uint64_t size) noexcept {
    ++costs_[node].allocations;
    costs_[node].allocated_bytes += size;
  }
  void released(std::uint32_t node, std::uint64_t size, std::uint64_t lifetime_ns, bool temporary) noexcept {
    ChurnCosts& costs = costs_[node];
    ++costs.released;
    costs.temporary += temporary;
    costs.lifetime_ns += lifetime_ns;
    if (lifetime_ns > short_ns_) return;
    ++costs.short_lived;
    costs.short_lived_bytes += size;
  }

  const std::vector<ChurnCosts>& costs() const noexcept { return costs_; }  ///< by node

 private:
  std::uint64_t short_ns_;
  std::vector<ChurnCosts> costs_;
};

}  // namespace heapprof::model
