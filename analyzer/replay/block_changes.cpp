#include "analyzer/replay/block_changes.h"

#include <algorithm>

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

}  // namespace heapprof::replay
