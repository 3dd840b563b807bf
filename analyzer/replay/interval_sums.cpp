#include "analyzer/replay/interval_sums.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace heapprof::replay {
namespace {

using trace::ByteReader;
using trace::ByteWriter;
using trace::FormatError;

constexpr std::array kPeakFields = {&IntervalPeak::bytes, &IntervalPeak::blocks, &IntervalPeak::ticks};
constexpr std::array kNodeFields = {&NodeSums::allocations,     &NodeSums::allocated_bytes, &NodeSums::temporary,
                                    &NodeSums::temporary_bytes, &NodeSums::moved_blocks,    &NodeSums::moved_bytes};
constexpr std::array kNodeChanges = {&NodeSums::live_blocks, &NodeSums::live_bytes, &NodeSums::peak_blocks,
                                     &NodeSums::peak_bytes};

template <typename Record, typename Fields>
void save_fields(const Record& record, const Fields& fields, ByteWriter& out) {
  for (const auto field : fields) out.number(record.*field);
}

template <typename Record, typename Fields>
void load_fields(ByteReader& in, const Fields& fields, Record& record) {
  for (const auto field : fields) record.*field = in.number();
}

void save_older(const std::vector<OlderBlock>& blocks, ByteWriter& out) {
  out.number(blocks.size());
  std::uint64_t last = 0;
  for (const OlderBlock& block : blocks) {
    out.number(block.node);
    out.number(block.size);
    out.signed_number(static_cast<std::int64_t>(block.time - last));
    last = block.time;
  }
}

std::vector<OlderBlock> load_older(ByteReader& in, std::uint32_t node_count) {
  std::vector<OlderBlock> blocks(in.count());
  std::uint64_t last = 0;
  for (OlderBlock& block : blocks) {
    block.node = static_cast<std::uint32_t>(in.number_up_to(node_count - 1));
    block.size = in.number();
    block.time = last + static_cast<std::uint64_t>(in.signed_number());
    last = block.time;
  }
  return blocks;
}

}  // namespace

void save(const IntervalSums& sums, ByteWriter& out) {
  save_fields(sums.heap, kSummedHeapFields, out);
  save_fields(sums.mappings, kMappingFields, out);
  save_fields(sums.heap_peak, kPeakFields, out);
  save_fields(sums.mmap_peak, kPeakFields, out);
  out.number(sums.samples);
  out.number(sums.snapshots);
  out.number(sums.peak_rss_bytes);
  out.number(sums.threads.size());
  for (const ThreadSums& thread : sums.threads) {
    out.number(thread.allocations);
    out.number(thread.allocated_bytes);
  }
  save_older(sums.older_temporary, out);
  save_older(sums.older_moved, out);
  // By columns, which compress better than rows.
  out.number(sums.nodes.size());
  std::uint32_t last = 0;
  for (const NodeSums& node : sums.nodes) {
    out.number(node.node - last);
    last = node.node;
  }
  for (const auto field : kNodeFields)
    for (const NodeSums& node : sums.nodes) out.number(node.*field);
  for (const auto field : kNodeChanges)
    for (const NodeSums& node : sums.nodes) out.signed_number(node.*field);
}

IntervalSums load_interval_sums(ByteReader& in, std::uint32_t node_count) {
  IntervalSums sums;
  load_fields(in, kSummedHeapFields, sums.heap);
  load_fields(in, kMappingFields, sums.mappings);
  load_fields(in, kPeakFields, sums.heap_peak);
  load_fields(in, kPeakFields, sums.mmap_peak);
  sums.samples = in.number();
  sums.snapshots = in.number();
  sums.peak_rss_bytes = in.number();
  sums.threads.resize(in.count());
  for (ThreadSums& thread : sums.threads) {
    thread.allocations = in.number();
    thread.allocated_bytes = in.number();
  }
  sums.older_temporary = load_older(in, node_count);
  sums.older_moved = load_older(in, node_count);
  const std::size_t nodes = in.count();
  if (nodes > node_count) throw FormatError("it has sums of more stacks than the trace");
  sums.nodes.resize(nodes);
  std::uint64_t last = 0;
  for (NodeSums& node : sums.nodes) {
    last += in.number_up_to(node_count);
    if (last >= node_count) throw FormatError("it has sums of an unknown stack");
    node.node = static_cast<std::uint32_t>(last);
  }
  for (const auto field : kNodeFields)
    for (NodeSums& node : sums.nodes) node.*field = in.number();
  for (const auto field : kNodeChanges)
    for (NodeSums& node : sums.nodes) node.*field = in.signed_number();
  in.expect_end();
  return sums;
}

}  // namespace heapprof::replay
