#include "analyzer/replay/block_changes.h"

#include <algorithm>
#include <unordered_set>

#include "analyzer/replay/address_set.h"

namespace heapprof::replay {

using trace::ByteReader;
using trace::ByteWriter;

bool precedes_in_snapshot(const Block& a, const Block& b) noexcept {
  return a.time != b.time ? a.time < b.time : a.address < b.address;
}

void save_block_changes(bool whole, std::vector<std::uint64_t> removed, std::vector<Block> added, ByteWriter& out) {
  out.number(whole ? 1 : 0);
  std::sort(removed.begin(), removed.end());
  removed.erase(std::unique(removed.begin(), removed.end()), removed.end());
  out.number(removed.size());
  std::uint64_t last_removed = 0;
  for (const std::uint64_t address : removed) {
    out.number(address - last_removed);
    last_removed = address;
  }

  std::sort(added.begin(), added.end(), precedes_in_snapshot);
  added.erase(std::unique(added.begin(), added.end(),
                          [](const Block& a, const Block& b) { return a.address == b.address && a.time == b.time; }),
              added.end());
  out.number(added.size());
  Block last;
  for (const Block& block : added) {
    out.number(block.time - last.time);
    last.time = block.time;
  }
  for (const Block& block : added) {
    out.signed_number(static_cast<std::int64_t>(block.address - last.address));
    last.address = block.address;
  }
  for (const Block& block : added) out.number(block.size);
  for (const Block& block : added) {
    out.signed_number(std::int64_t{block.node} - last.node);
    last.node = block.node;
  }
  for (const Block& block : added) out.number(block.thread);
}

BlockChangesReader::BlockChangesReader(ByteReader& in) {
  whole_ = in.number_up_to(1) != 0;
  removed_ = in.count();
  removed_addresses_ = in.numbers(removed_);
  added_ = in.count();
  times_ = in.numbers(added_);
  addresses_ = in.numbers(added_);
  sizes_ = in.numbers(added_);
  nodes_ = in.numbers(added_);
  threads_ = in.numbers(added_);
  blocks_.resize(std::min(added_, kBlocks));
}

std::size_t BlockChangesReader::added_since(std::uint64_t ticks) const {
  if (ticks == std::numeric_limits<std::uint64_t>::max()) return 0;
  ByteReader times = times_;
  std::uint64_t time = 0;
  for (std::size_t i = 0; i < added_; ++i)
    if ((time += times.number()) >= ticks) return added_ - i;
  return 0;
}

std::span<const Block> BlockChangesReader::next_blocks() {
  const std::span<Block> blocks(blocks_.data(), std::min(added_, kBlocks));
  Block last = last_;
  for (Block& block : blocks) {
    last.time += times_.number();
    last.address += static_cast<std::uint64_t>(addresses_.signed_number());
    last.size = sizes_.small_number();
    last.node = static_cast<std::uint32_t>(last.node + static_cast<std::uint64_t>(unzigzag(nodes_.small_number())));
    last.thread = threads_.small_number32();
    block = last;
  }
  last_ = last;
  added_ -= blocks.size();
  return blocks;
}

/// From the last state to the first: a block that a state added is live unless a later one removed what is at its
/// address.
BlocksOfSnapshot sum_blocks(std::span<ByteReader> states, const NeededBlocks& needed, std::size_t node_count,
                            std::size_t thread_count) {
  std::vector<BlockChangesReader> changes;
  changes.reserve(states.size());
  std::size_t removed = 0;
  for (ByteReader& in : states) {
    const BlockChangesReader& one = changes.emplace_back(in);
    if (one.whole() != (changes.size() == 1)) throw trace::FormatError("its changes do not follow a whole state");
    if (!one.whole()) removed += one.removed();
  }
  AddressSet gone(removed);
  // A block that was allocated at the time of the state before is in both.
  std::unordered_set<std::uint64_t> in_both;
  BlocksOfSnapshot read;
  read.all = false;
  read.rest = states.back();
  read.left.nodes.resize(node_count);
  read.left.threads.resize(thread_count);
  std::vector<Block> chosen;
  for (std::size_t i = changes.size(); i-- != 0;) {
    const std::uint64_t begin_ticks = i == 0 ? 0 : ByteReader(states[i - 1]).number();
    changes[i].for_each_added([&](std::span<const Block> added) {
      chosen.clear();
      for (const Block& block : added) {
        if (!needed.contain(block)) continue;
        gone.prefetch(block.address);
        chosen.push_back(block);
      }
      for (const Block& block : chosen) {
        if (gone.contains(block.address) || (!in_both.empty() && in_both.contains(block.address))) continue;
        if (i != 0 && block.time <= begin_ticks) in_both.insert(block.address);
        if (needed.addresses.contains(block.address)) {
          bool fresh;
          read.table.insert(block.address, fresh) = block;
          continue;
        }
        if (block.address == 0 || block.node >= node_count || block.thread >= thread_count)
          throw trace::FormatError("it has a block with an invalid field");
        LeftSums::Sum& of_node = read.left.nodes[block.node];
        of_node.bytes += block.size;
        ++of_node.blocks;
        LeftSums::Sum& of_thread = read.left.threads[block.thread];
        of_thread.bytes += block.size;
        ++of_thread.blocks;
      }
    });
    if (i == 0) break;
    changes[i].for_each_removed([&](std::uint64_t address) { gone.insert(address); });
  }
  return read;
}

}  // namespace heapprof::replay
