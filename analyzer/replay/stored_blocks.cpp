#include "analyzer/replay/stored_blocks.h"

#include <algorithm>
#include <array>

namespace heapprof::replay {
namespace {

using trace::ByteReader;
using trace::ByteWriter;
using trace::FormatError;

class BlocksReader {
 public:
  /// Moves `in` to the end of the blocks. Its bytes must outlive this. Throws FormatError, as the other functions.
  explicit BlocksReader(ByteReader& in)
      : count_(in.count()), times_(in.numbers(count_)), addresses_(in.numbers(count_)), sizes_(in.numbers(count_)),
        nodes_(in.numbers(count_)), threads_(in.numbers(count_)), blocks_(std::min(count_, kBlocks)) {}

  /// How many are to come.
  std::size_t count() const noexcept { return count_; }
  /// Calls visit(blocks) with all blocks, some at a time. Call it once.
  template <typename Visit>
  void for_each(Visit&& visit) {
    while (count_ != 0) visit(next());
  }

 private:
  static constexpr std::size_t kBlocks = 128;

  std::span<const Block> next() {
    const std::span<Block> blocks(blocks_.data(), std::min(count_, kBlocks));
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
    count_ -= blocks.size();
    return blocks;
  }

  std::size_t count_;
  ByteReader times_;
  ByteReader addresses_;
  ByteReader sizes_;
  ByteReader nodes_;
  ByteReader threads_;
  Block last_;
  std::vector<Block> blocks_;
};

/// A trace has no two live blocks at one address; of a damaged index the youngest is taken.
void insert_younger(const Block& block, BlockTable& table) {
  bool fresh;
  Block& entry = table.insert(block.address, fresh);
  if (fresh || entry.time <= block.time) entry = block;
}

}  // namespace

bool precedes_in_snapshot(const Block& a, const Block& b) noexcept {
  return a.time != b.time ? a.time < b.time : a.address < b.address;
}

void save_blocks(std::vector<Block> blocks, ByteWriter& out) {
  std::sort(blocks.begin(), blocks.end(), precedes_in_snapshot);
  blocks.erase(std::unique(blocks.begin(), blocks.end(),
                           [](const Block& a, const Block& b) { return a.address == b.address && a.time == b.time; }),
               blocks.end());
  out.number(blocks.size());
  Block last;
  for (const Block& block : blocks) {
    out.number(block.time - last.time);
    last.time = block.time;
  }
  for (const Block& block : blocks) {
    out.signed_number(static_cast<std::int64_t>(block.address - last.address));
    last.address = block.address;
  }
  for (const Block& block : blocks) out.number(block.size);
  for (const Block& block : blocks) {
    out.signed_number(std::int64_t{block.node} - last.node);
    last.node = block.node;
  }
  for (const Block& block : blocks) out.number(block.thread);
}

void save(OlderBlocks blocks, ByteWriter& out) {
  save_blocks(std::move(blocks.freed), out);
  save_blocks(std::move(blocks.given), out);
}

OlderBlocks load_older_blocks(ByteReader& in, std::size_t node_count) {
  const auto load = [&] {
    BlocksReader reader(in);
    std::vector<Block> blocks;
    blocks.reserve(reader.count());
    reader.for_each([&](std::span<const Block> some) {
      for (const Block& block : some)
        if (block.address == 0 || block.node >= node_count) throw FormatError("it has a block with an invalid field");
      blocks.insert(blocks.end(), some.begin(), some.end());
    });
    return blocks;
  };
  OlderBlocks older;
  older.freed = load();
  older.given = load();
  return older;
}

BlockTable table_of(std::span<const Block> blocks) {
  BlockTable table;
  table.reset(blocks.size());
  for (const Block& block : blocks) insert_younger(block, table);
  return table;
}

void add_up_to(std::uint64_t ticks, std::span<const Block> blocks, BlockTable& table) {
  constexpr std::size_t kTogether = 128;
  std::vector<Block> chosen;
  std::array<std::size_t, kTogether> entries;
  while (!blocks.empty()) {
    const std::span<const Block> some = blocks.first(std::min(kTogether, blocks.size()));
    blocks = blocks.subspan(some.size());
    chosen.clear();
    for (const Block& block : some)
      if (block.time <= ticks) chosen.push_back(block);
    for (const Block& block : chosen) table.prefetch_group(BlockTable::hash_of(block.address));
    for (std::size_t i = 0; i < chosen.size(); ++i)
      entries[i] = table.prefetch_entry(BlockTable::hash_of(chosen[i].address));
    if (table.has_many_arrays())
      for (std::size_t i = 0; i < chosen.size(); ++i) table.prefetch_block(chosen[i].address, entries[i]);
    for (const Block& block : chosen) insert_younger(block, table);
  }
}

BlockTable blocks_up_to(std::uint64_t ticks, ByteReader in) {
  BlocksReader reader(in);
  in.expect_end();
  BlockTable table;
  table.reset(reader.count());
  reader.for_each([&](std::span<const Block> blocks) { add_up_to(ticks, blocks, table); });
  return table;
}

}  // namespace heapprof::replay
