#include "analyzer/pins/holder_sets.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "analyzer/base/mix_bits.h"

namespace heapprof::pins {
namespace {

/// What a block keeps.
struct Kept {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint32_t node = 0;
  friend auto operator<=>(const Kept&, const Kept&) = default;
};

/// Calls visit(nodes, bytes) for each range of addresses that the same blocks keep. `kept` is sorted.
template <typename Visit>
void sweep(const std::vector<Kept>& kept, Visit&& visit) {
  std::vector<Kept> open;  // ranges that contain `at`
  std::vector<std::uint32_t> nodes;
  std::uint64_t at = 0;
  for (std::size_t next = 0; next < kept.size() || !open.empty();) {
    if (open.empty()) at = kept[next].begin;
    for (; next < kept.size() && kept[next].begin == at; ++next) open.push_back(kept[next]);
    std::uint64_t end = next < kept.size() ? kept[next].begin : ~std::uint64_t{0};
    nodes.clear();
    for (const Kept& one : open) {
      end = std::min(end, one.end);
      nodes.push_back(one.node);
    }
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    visit(std::span<const std::uint32_t>(nodes), end - at);
    at = end;
    std::erase_if(open, [end](const Kept& one) { return one.end == end; });
  }
}

/// Sorts the blocks by address and leaves out what no allocator can have returned.
void make_plausible(std::vector<PinningBlock>& blocks) {
  std::erase_if(blocks, [](const PinningBlock& block) { return block.address >= allocators::kMaxAddress; });
  std::sort(blocks.begin(), blocks.end(),
            [](const PinningBlock& a, const PinningBlock& b) { return a.address < b.address; });
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::uint64_t end = i + 1 < blocks.size() ? blocks[i + 1].address : allocators::kMaxAddress;
    blocks[i].size = std::min(blocks[i].size, end - blocks[i].address);
  }
}

}  // namespace

void HolderSets::add(std::span<const std::uint32_t> holders, std::uint64_t bytes) {
  std::uint64_t hash = holders.size();
  for (const std::uint32_t holder : holders) hash = mix_bits(hash ^ holder) + holder;
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto at = begin; at != end; ++at)
    if (std::ranges::equal(this->holders(at->second), holders)) {
      sets_[at->second].bytes += bytes;
      return;
    }
  by_hash_.emplace(hash, sets_.size());
  sets_.push_back({bytes, members_.size(), holders.size()});
  members_.insert(members_.end(), holders.begin(), holders.end());
}

HolderSets HolderSets::grouped(const std::vector<std::uint32_t>& group_of_holder) const {
  HolderSets result;
  std::vector<std::uint32_t> groups;
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    groups.clear();
    for (const std::uint32_t holder : holders(set)) groups.push_back(group_of_holder[holder]);
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    result.add(groups, sets_[set].bytes);
  }
  return result;
}

KeptMemory find_kept_memory(std::vector<PinningBlock> blocks, const allocators::ProcessAllocators& allocators,
                            std::size_t node_count) {
  KeptMemory result;
  result.by_node.resize(node_count);
  make_plausible(blocks);
  std::vector<Kept> kept;
  kept.reserve(blocks.size());
  for (const PinningBlock& block : blocks) {
    const allocators::AllocatorModel& model = allocators.of(block.address);
    const AddressRange range = model.kept_range(block.address, block.size);
    result.by_node[block.node] += {block.size, model.usable_bytes(block.address, block.size), 1};
    const Kept one{range.begin, range.end, block.node};
    // Neighbours of one stack often keep the same range.
    if (kept.empty() || kept.back() != one) kept.push_back(one);
  }
  blocks = {};
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  sweep(kept, [&](std::span<const std::uint32_t> nodes, std::uint64_t bytes) { result.sets.add(nodes, bytes); });
  std::vector<AddressRange> ranges;
  ranges.reserve(kept.size());
  for (const Kept& one : kept) ranges.push_back({one.begin, one.end});
  result.ranges = joined(std::move(ranges));
  return result;
}

}  // namespace heapprof::pins
