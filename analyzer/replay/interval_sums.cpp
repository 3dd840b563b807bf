#include "analyzer/replay/interval_sums.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace heapprof::replay {
namespace {

using trace::ByteReader;
using trace::ByteWriter;
using trace::FormatError;

constexpr std::array kPeakFields = {&IntervalPeak::bytes, &IntervalPeak::blocks, &IntervalPeak::ticks,
                                    &IntervalPeak::allocations};
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

/// By columns, which compress better than rows.
void save_columns(const std::vector<NodeSums>& rows, ByteWriter& out) {
  for (const auto field : kNodeFields)
    for (const NodeSums& row : rows) out.number(row.*field);
  for (const auto field : kNodeChanges)
    for (const NodeSums& row : rows) out.signed_number(row.*field);
}

void load_columns(ByteReader& in, std::vector<NodeSums>& rows) {
  for (const auto field : kNodeFields)
    for (NodeSums& row : rows) row.*field = in.number();
  for (const auto field : kNodeChanges)
    for (NodeSums& row : rows) row.*field = in.signed_number();
}

void save_older(const std::vector<OlderBlock>& blocks, ByteWriter& out) {
  out.number(blocks.size());
  std::uint64_t last = 0;
  for (const OlderBlock& block : blocks) {
    out.number(block.node);
    out.number(block.thread);
    out.number(block.size);
    out.signed_number(static_cast<std::int64_t>(block.time - last));
    last = block.time;
  }
}

std::vector<OlderBlock> load_older(ByteReader& in, std::uint32_t node_count, std::size_t thread_count) {
  constexpr std::size_t kMinBlockBytes = 4;
  std::vector<OlderBlock> blocks(in.count(kMinBlockBytes));
  if (!blocks.empty() && thread_count == 0) throw FormatError("it has a block without a thread");
  std::uint64_t last = 0;
  for (OlderBlock& block : blocks) {
    block.node = static_cast<std::uint32_t>(in.number_up_to(node_count - 1));
    block.thread = static_cast<std::uint32_t>(in.number_up_to(thread_count - 1));
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
  save_columns(sums.threads, out);
  save_older(sums.older_temporary, out);
  save_older(sums.older_moved, out);
  out.number(sums.nodes.size());
  std::uint32_t last = 0;
  for (const NodeSums& node : sums.nodes) {
    out.number(node.node - last);
    last = node.node;
  }
  save_columns(sums.nodes, out);
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
  constexpr std::size_t kMinSumsBytes = kNodeFields.size() + kNodeChanges.size();
  sums.threads.resize(in.count(kMinSumsBytes));
  for (std::size_t i = 0; i < sums.threads.size(); ++i) sums.threads[i].node = static_cast<std::uint32_t>(i);
  load_columns(in, sums.threads);
  sums.older_temporary = load_older(in, node_count, sums.threads.size());
  sums.older_moved = load_older(in, node_count, sums.threads.size());
  const std::size_t nodes = in.count(1 + kMinSumsBytes);
  if (nodes > node_count) throw FormatError("it has sums of more stacks than the trace");
  sums.nodes.resize(nodes);
  std::uint64_t last = 0;
  for (NodeSums& node : sums.nodes) {
    last += in.number_up_to(node_count);
    if (last >= node_count) throw FormatError("it has sums of an unknown stack");
    node.node = static_cast<std::uint32_t>(last);
  }
  load_columns(in, sums.nodes);
  in.expect_end();
  return sums;
}

}  // namespace heapprof::replay
