#include "analyzer/replay/compact/block_numbers.h"

#include "analyzer/trace/compact/chunk_codec.h"

namespace heapprof::replay {

void BlockNumbers::translate(trace::MergedEvent& event, const std::vector<trace::EventText>& texts) {
  const std::uint32_t stream = event.stream();
  switch (event.op()) {
    case Op::kAlloc: event.address = allocate(stream, event.address); return;
    case Op::kReallocEnd: {
      const bool in_place =
          event.address != 0 && !in_realloc_[stream].empty() && in_realloc_[stream].back() == event.address;
      end_realloc(stream, in_place);
      event.address = in_place ? entries_.find(event.address)->size : allocate(stream, event.address);
      return;
    }
    case Op::kReallocFailed: end_realloc(stream, true); return;
    case Op::kFree:
    case Op::kFreeStack: event.address = free(event.address); return;
    case Op::kReallocBegin: event.address = begin_realloc(stream, event.address); return;
    case Op::kText:
      if (texts[event.node].kind == TextKind::kThread) in_realloc_[stream].clear();
      return;
    default:
      if (event.op() == trace::kGap) in_realloc_[stream].clear();
      return;
  }
}

std::uint64_t BlockNumbers::allocate(std::uint32_t stream, std::uint64_t address) {
  if (address == 0) return 0;
  bool fresh;
  Block& entry = entries_.insert(address, fresh);
  if (fresh) entry = {address, trace::block_number(stream, next_ordinal_[stream]++), 0, 0, 0};
  entry.thread = 1;
  return entry.size;
}

Block* BlockNumbers::find_live(std::uint64_t address) {
  Block* const entry = address == 0 ? nullptr : entries_.find(address);
  return entry == nullptr || entry->thread == 0 ? nullptr : entry;
}

std::uint64_t BlockNumbers::free(std::uint64_t address) {
  Block* const entry = find_live(address);
  if (entry == nullptr) return 0;
  const std::uint64_t number = entry->size;
  entry->thread = 0;
  if (entry->node == 0) entries_.erase(entry);
  return number;
}

std::uint64_t BlockNumbers::begin_realloc(std::uint32_t stream, std::uint64_t address) {
  Block* const entry = find_live(address);
  in_realloc_[stream].push_back(entry == nullptr ? 0 : address);
  if (entry == nullptr) return 0;
  entry->thread = 0;
  ++entry->node;
  return entry->size;
}

/// `is_live`: the block is live again at its old address.
void BlockNumbers::end_realloc(std::uint32_t stream, bool is_live) {
  if (in_realloc_[stream].empty()) return;
  const std::uint64_t address = in_realloc_[stream].back();
  in_realloc_[stream].pop_back();
  Block* const entry = address == 0 ? nullptr : entries_.find(address);
  if (entry == nullptr) return;
  if (entry->node != 0) --entry->node;
  if (is_live) entry->thread = 1;
  if (entry->thread == 0 && entry->node == 0) entries_.erase(entry);
}

}  // namespace heapprof::replay
