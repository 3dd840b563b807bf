#include "analyzer/replay/recording_totals.h"

#include <array>

namespace heapprof::replay {
namespace {

constexpr std::array kTotalsFields = {&model::StackTotals::allocations, &model::StackTotals::allocated_bytes,
                                      &model::StackTotals::moved_blocks, &model::StackTotals::left_blocks};

/// By columns, which compress better than rows. Most nodes of a call tree are callers only.
void save_totals(const std::vector<model::StackTotals>& totals, trace::ByteWriter& out) {
  std::vector<std::uint32_t> used;
  for (std::uint32_t index = 0; index < totals.size(); ++index)
    if (!totals[index].empty()) used.push_back(index);
  out.number(used.size());
  std::uint32_t last = 0;
  for (const std::uint32_t index : used) {
    out.number(index - last);
    last = index;
  }
  for (const auto field : kTotalsFields)
    for (const std::uint32_t index : used) out.number(totals[index].*field);
}

std::vector<model::StackTotals> load_totals(trace::ByteReader& in, std::uint32_t node_count) {
  const std::size_t count = in.count();
  if (count > node_count) throw trace::FormatError("it has totals of more stacks than the trace");
  std::vector<std::uint32_t> used(count);
  std::uint64_t last = 0;
  for (std::uint32_t& index : used) {
    last += in.number_up_to(node_count);
    if (last >= node_count) throw trace::FormatError("it has totals of an unknown stack");
    index = static_cast<std::uint32_t>(last);
  }
  std::vector<model::StackTotals> totals(used.empty() ? 0 : used.back() + std::size_t{1});
  for (const auto field : kTotalsFields)
    for (const std::uint32_t index : used) totals[index].*field = in.number();
  return totals;
}

}  // namespace

model::StackTotals RecordingTotals::of(model::Kind kind, std::size_t index) const {
  model::StackTotals sum;
  if (kind != model::Kind::kMmap && index < heap.size()) sum += heap[index];
  if (kind != model::Kind::kHeap && index < mmap.size()) sum += mmap[index];
  return sum;
}

void save(const RecordingTotals& totals, trace::ByteWriter& out) {
  save_totals(totals.heap, out);
  save_totals(totals.mmap, out);
}

RecordingTotals load_recording_totals(trace::ByteReader& in, std::uint32_t node_count) {
  RecordingTotals totals;
  totals.heap = load_totals(in, node_count);
  totals.mmap = load_totals(in, node_count);
  in.expect_end();
  return totals;
}

}  // namespace heapprof::replay
