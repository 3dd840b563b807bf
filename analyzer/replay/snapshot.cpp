// Saves and restores the state of a replay: Replay::save() and Replay::restore().
//
// The state is what later events can refer to: live blocks and mappings, calls that have not returned, threads. Sums
// are not saved, because a slice starts with none; live sums are counted again. Blocks are stored in the order of
// their allocation, so that times and stacks differ little from one to the next.
#include <algorithm>
#include <array>
#include <utility>

#include "analyzer/replay/replay.h"

namespace heapprof::replay {
namespace {

using trace::ByteReader;
using trace::ByteWriter;
using trace::FormatError;

void save_block(const Block& block, ByteWriter& out) {
  out.number(block.address);
  out.number(block.size);
  out.number(block.time);
  out.number(block.node);
  out.number(block.thread);
}

void save_region(const Region& region, ByteWriter& out) {
  out.number(region.begin);
  out.number(region.end - region.begin);
  out.number(region.identity);
  out.number(region.node);
  out.number(region.flags);
  out.number(region.thread);
  out.number(region.initial_bytes);
}

}  // namespace

void Replay::save_calls(ByteWriter& out) const {
  const auto save_realloc = [&](PendingReallocs::Number number) {
    const PendingRealloc& pending = reallocs_[number];
    save_block(pending.block, out);
    out.number((pending.temporary ? 1u : 0u) | (pending.freed ? 2u : 0u));
  };
  const auto save_mapping = [&](const PendingMapping& pending) {
    out.number(pending.remap ? 1 : 0);
    out.number(pending.pieces.size());
    for (const Region& piece : pending.pieces) save_region(piece, out);
  };
  out.number(streams_.size());
  for (const StreamState& stream : streams_) {
    out.number(stream.thread == kNoThread ? 0 : stream.thread + 1);
    out.number(stream.reallocs.size());
    for (const PendingReallocs::Number number : stream.reallocs) save_realloc(number);
    out.number(stream.mappings.size());
    for (const PendingMapping& pending : stream.mappings) save_mapping(pending);
  }
  out.number(abandoned_reallocs_.size());
  for (const PendingReallocs::Number number : abandoned_reallocs_) save_realloc(number);
  out.number(abandoned_mappings_.size());
  for (const PendingMapping& pending : abandoned_mappings_) save_mapping(pending);
}

void Replay::save_other_state(ByteWriter& out) const {
  out.number(now_);
  threads_.save(out);
  save_calls(out);
  out.number(mapping_table_.last_identity());
  out.number(mapping_table_.size());
  mapping_table_.for_each([&](const Region& region) { save_region(region, out); });
}

void Replay::save(ByteWriter& out) const {
  save_other_state(out);
  std::vector<Block> blocks;
  blocks.reserve(blocks_.size());
  blocks_.for_each([&](const Block& block) { blocks.push_back(block); });
  std::sort(blocks.begin(), blocks.end(), precedes_in_snapshot);
  out.number(blocks.size());
  Block last;
  for (const Block& block : blocks) {
    out.number(block.time - last.time);
    out.signed_number(static_cast<std::int64_t>(block.address - last.address));
    out.number(block.size);
    out.signed_number(std::int64_t{block.node} - last.node);
    out.number(block.thread);
    last = block;
  }
}

void Replay::save_live_blocks(ByteWriter& out) const {
  std::vector<Block> blocks;
  blocks.reserve(blocks_.size());
  blocks_.for_each([&](const Block& block) { blocks.push_back(block); });
  save_blocks(std::move(blocks), out);
}

Block Replay::restored_block(ByteReader& in, std::uint32_t node_count) const {
  Block block;
  block.address = in.number();
  block.size = in.number();
  block.time = in.number();
  block.node = static_cast<std::uint32_t>(in.number_up_to(node_count - 1));
  block.thread = in.number32();
  if (block.address != 0 && block.thread >= threads_.size()) throw FormatError("it has a block without a thread");
  return block;
}

Region Replay::restored_region(ByteReader& in, std::uint32_t node_count) const {
  Region region;
  region.begin = in.number();
  const std::uint64_t size = in.number();
  region.end = region.begin + size;
  if (region.end <= region.begin) throw FormatError("it has an empty mapping");
  region.identity = in.number();
  region.node = static_cast<std::uint32_t>(in.number_up_to(node_count - 1));
  region.flags = in.number32() & ~kNotSelected;
  region.thread = in.number32();
  region.initial_bytes = in.number();
  if (region.thread >= threads_.size()) throw FormatError("it has a mapping without a thread");
  // A mapping has no time. A snapshot that is used for them is from before the slice.
  if (filter_.own_blocks_only || filter_.only_blocks ||
      !is_selected(threads_[region.thread], region.node, region.initial_bytes))
    region.flags |= kNotSelected;
  return region;
}

/// Marks the block when it does not match the selection. Precondition: its address is not 0.
void Replay::select_restored(Block& block) const {
  if (!is_time_selected(block.time) || !is_selected(threads_[block.thread], block.node, block.size))
    block.thread |= kNotSelected;
}

void Replay::select_restored_reallocs() {
  for_each_realloc([&](PendingReallocs::Number number) {
    if (reallocs_[number].block.address != 0) select_restored(reallocs_[number].block);
  });
}

/// As live, if it is selected.
void Replay::count_restored(const Block& block) {
  if ((block.thread & kNotSelected) != 0) return;
  heap_costs_.adjust(block.node, static_cast<std::int64_t>(block.size), 1);
  if (count_all_) all_costs_.adjust(block.node, static_cast<std::int64_t>(block.size), 1);
  if (count_threads_) thread_costs_.adjust(block.thread, static_cast<std::int64_t>(block.size), 1);
}

void Replay::count_restored_blocks() {
  reallocs_.for_each_live([&](const PendingRealloc& pending) { count_restored(pending.block); });
  blocks_.for_each([&](const Block& block) { count_restored(block); });
}

/// Calls that had begun: of each stream, then of threads that were gone.
void Replay::restore_calls(ByteReader& in, std::uint32_t node_count) {
  reallocs_.clear();
  const auto restore_reallocs = [&](std::vector<PendingReallocs::Number>& into, std::uint32_t thread) {
    into.clear();
    const std::size_t count = in.count();
    for (std::size_t i = 0; i < count; ++i) {
      PendingRealloc pending;
      pending.block = restored_block(in, node_count);
      pending.thread = thread;
      const std::uint64_t flags = in.number();
      pending.temporary = (flags & 1) != 0;
      pending.freed = (flags & 2) != 0;
      const std::uint64_t address = pending.block.address;
      if (pending.is_live() && reallocs_.find(address, BlockTable::hash_of(address)) != PendingReallocs::kNone)
        throw FormatError("it has two blocks at one address");
      into.push_back(reallocs_.add(pending));
    }
  };
  const auto restore_unmaps = [&](std::vector<PendingMapping>& into) {
    into.clear();
    const std::size_t count = in.count();
    for (std::size_t i = 0; i < count; ++i) {
      PendingMapping pending;
      pending.remap = in.number() != 0;
      const std::size_t pieces = in.count();
      for (std::size_t piece = 0; piece < pieces; ++piece) pending.pieces.push_back(restored_region(in, node_count));
      into.push_back(std::move(pending));
    }
  };
  if (in.count() != streams_.size()) throw FormatError("it has another number of streams than the trace");
  for (StreamState& stream : streams_) {
    const std::uint64_t thread = in.number_up_to(threads_.size());
    stream.thread = thread == 0 ? kNoThread : static_cast<std::uint32_t>(thread - 1);
    restore_reallocs(stream.reallocs, stream.thread);
    restore_unmaps(stream.mappings);
  }
  restore_reallocs(abandoned_reallocs_, kNoThread);
  restore_unmaps(abandoned_mappings_);
}

void Replay::restore_mappings(ByteReader& in, std::uint32_t node_count) {
  mapping_table_ = MappingTable();
  const std::uint64_t last_identity = in.number();
  const std::size_t regions = in.count();
  std::uint64_t mapped_to = 0;
  for (std::size_t i = 0; i < regions; ++i) {
    const Region region = restored_region(in, node_count);
    if (region.begin < mapped_to) throw FormatError("it has two mappings that overlap");
    mapped_to = region.end;
    mapping_table_.restore(region, last_identity);
  }
}

/// Without an event, because the timeline has not begun.
void Replay::count_restored_mappings() {
  mapping_table_.for_each([&](const Region& region) {
    if ((region.flags & (kMapReserve | kNotSelected)) != 0) return;
    const auto bytes = static_cast<std::int64_t>(region.end - region.begin);
    mmap_costs_.adjust(region.node, bytes, 1);
    if (count_all_ && (region.flags & kMapFromAllocator) == 0) all_costs_.adjust(region.node, bytes, 1);
  });
}

void Replay::restore_other_state(ByteReader& in, std::uint32_t node_count) {
  now_ = in.number();
  threads_.restore(in);
  restore_calls(in, node_count);
  restore_mappings(in, node_count);
}

void Replay::restore_blocks(ByteReader& in, std::uint32_t node_count) {
  const std::size_t blocks = in.count();
  blocks_.reset(blocks);
  Block last;
  for (std::size_t i = 0; i < blocks; ++i) {
    Block block;
    block.time = last.time + in.number();
    block.address = last.address + static_cast<std::uint64_t>(in.signed_number());
    block.size = in.number();
    block.node = static_cast<std::uint32_t>(last.node + static_cast<std::uint64_t>(in.signed_number()));
    block.thread = in.number32();
    if (block.address == 0 || block.thread >= threads_.size() || block.node >= node_count)
      throw FormatError("it has a block with an invalid field");
    last = block;
    select_restored(block);
    bool fresh;
    Block& entry = blocks_.insert(block.address, fresh);
    const std::uint64_t hash = BlockTable::hash_of(block.address);
    if (!fresh || reallocs_.find(block.address, hash) != PendingReallocs::kNone)
      throw FormatError("it has two blocks at one address");
    entry = block;
  }
}

bool Replay::restore(ByteReader& in, std::uint32_t node_count) {
  continued_ = true;
  restore_other_state(in, node_count);
  select_restored_reallocs();
  count_restored_mappings();
  restore_blocks(in, node_count);
  count_restored_blocks();
  in.expect_end();
  return threads_.selection_is_unambiguous();
}

void Replay::take_parts(BlockTable blocks, ByteReader other_state, std::uint32_t node_count) {
  blocks_ = std::move(blocks);
  restore_other_state(other_state, node_count);
  other_state.expect_end();
  reallocs_.for_each_live([&](const PendingRealloc& pending) {
    Block* const in_table = blocks_.find(pending.block.address);
    if (in_table == nullptr) return;
    if (*in_table != pending.block) throw FormatError("it has two blocks at one address");
    blocks_.erase(in_table);
  });
  blocks_.for_each([&](const Block& block) {
    if (block.address == 0 || block.thread >= threads_.size() || block.node >= node_count)
      throw FormatError("it has a block with an invalid field");
  });
}

bool Replay::restore_parts(BlockTable blocks, ByteReader other_state, std::uint32_t node_count) {
  continued_ = true;
  take_parts(std::move(blocks), other_state, node_count);
  select_restored_reallocs();
  count_restored_mappings();
  blocks_.for_each_entry([&](Block& block) { select_restored(block); });
  count_restored_blocks();
  return threads_.selection_is_unambiguous();
}

void Replay::restore_needed(std::span<const Block> blocks, ByteReader other_state, std::uint32_t node_count) {
  continued_ = true;
  take_parts(table_of(blocks), other_state, node_count);
  count_restored_mappings();
}

void Replay::add_live(const IntervalSums& sums) {
  for (const NodeSums& node : sums.nodes) heap_costs_.adjust(node.node, node.live_bytes, node.live_blocks);
  if (!count_threads_) return;
  for (const NodeSums& thread : sums.threads) {
    if (thread.node >= threads_.size()) throw FormatError("it has sums of a thread that does not exist");
    thread_costs_.adjust(thread.node, thread.live_bytes, thread.live_blocks);
  }
}

void Replay::continue_from(BlockTable blocks, bool all, ByteReader other_state, std::uint32_t node_count) {
  continued_ = true;
  begin_left();
  std::vector<ThreadSums> sums;
  for (const Thread& thread : threads_.all()) sums.push_back({thread.allocations, thread.allocated_bytes});
  take_parts(std::move(blocks), other_state, node_count);
  if (all) expect_live_of_sums();
  // The table and the calls have these from now on.
  for_each_live([&](const Block& block) {
    if (block.time >= filter_.from_ticks) change_left(block, [&](LeftSums::Sum& sum) { sum.remove(block.size); });
  });
  const auto too_many = [](const LeftSums::Sum& sum) { return sum.blocks >> 63 != 0; };
  if (std::ranges::any_of(left_.nodes, too_many) || std::ranges::any_of(left_.threads, too_many))
    throw FormatError("its sums have fewer live blocks than its states");
  mmap_costs_.clear_live();
  count_restored_mappings();
  for (std::size_t i = 0; i < added_threads_.size() || i < sums.size(); ++i) {
    if (i >= threads_.size()) throw FormatError("it has sums of a thread that does not exist");
    Thread& thread = threads_[static_cast<std::uint32_t>(i)];
    if (i < sums.size()) {
      thread.allocations += sums[i].allocations;
      thread.allocated_bytes += sums[i].allocated_bytes;
    }
    if (i < added_threads_.size()) {
      thread.allocations += added_threads_[i].allocations;
      thread.allocated_bytes += added_threads_[i].allocated_bytes;
    }
  }
}

std::optional<std::vector<Block>> Replay::live_events_before(std::uint64_t ticks) const {
  if (!abandoned_reallocs_.empty() ||
      std::ranges::any_of(streams_, [](const StreamState& stream) { return !stream.reallocs.empty(); }))
    return std::nullopt;
  std::vector<Block> live;
  for_each_leak([&](const Block& block) {
    if (block.time < ticks && is_block_event(block.node)) live.push_back(block);
  });
  return live;
}

void Replay::skip_to(std::span<const Block> blocks, ByteReader other_state, std::uint32_t node_count) {
  take_parts(table_of(blocks), other_state, node_count);
  select_restored_reallocs();
}

void Replay::add_unselected(std::span<const std::uint64_t> addresses) {
  for (const std::uint64_t address : addresses) {
    if (reallocs_.find(address, BlockTable::hash_of(address)) != PendingReallocs::kNone) continue;
    bool fresh;
    Block& entry = blocks_.insert(address, fresh);
    if (!fresh) continue;
    entry = {};
    entry.address = address;
    entry.thread = kNotSelected;
  }
}

/// Throws FormatError when the restored blocks are not those that are live by the sums.
void Replay::expect_live_of_sums() {
  std::uint64_t live_bytes = 0;
  std::uint64_t live_blocks = 0;
  for_each_live([&](const Block& block) {
    live_bytes += block.size;
    ++live_blocks;
  });
  if (live_bytes != heap_costs_.live_bytes() || live_blocks != heap_costs_.live_blocks())
    throw FormatError("its sums and snapshots have different live blocks");
}

void Replay::resolve_restored(std::vector<ResolvedEvent>& events) const {
  const auto add = [&](const Block& block) {
    if ((block.thread & kNotSelected) != 0 || !is_block_event(block.node)) return;
    events.push_back(
        {block.time, block.address, block.size, block.node, block.thread, ResolvedKind::kAllocation, false, true});
  };
  if (blocks_are_events_) for_each_live(add);
  // The time of a mapping is not saved; 0 puts it before all other events.
  if (mappings_are_events_)
    mapping_table_.for_each([&](const Region& region) {
      if ((region.flags & (kNotSelected | kMapReserve)) != 0 ||
          (count_all_ && (region.flags & kMapFromAllocator) != 0))
        return;
      events.push_back({.time = 0,
                        .address = region.begin,
                        .size = region.end - region.begin,
                        .node = region.node,
                        .thread = region.thread,
                        .kind = ResolvedKind::kAllocation,
                        .temporary = false,
                        .before_slice = true,
                        .subject = Subject::kMapping});
    });
  std::sort(events.begin(), events.end(), [](const ResolvedEvent& a, const ResolvedEvent& b) {
    return a.time != b.time ? a.time < b.time : a.address < b.address;
  });
}

}  // namespace heapprof::replay
