#include "analyzer/trace/asked_allocations.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/varint.h"

namespace heapprof::trace {
namespace {

constexpr std::uint64_t kSomeAddress = 1;  // where addresses are not asked for

/// Adds `count` numbers of a column, most of them of one byte, to `sum`. False: the column is malformed.
bool add_small(const std::uint8_t*& at, const std::uint8_t* end, std::uint32_t count, std::uint64_t& sum) {
  constexpr std::uint64_t kBytes = 0x00ff00ff00ff00ff;
  while (count != 0) {
    std::uint64_t word = 0x80;
    if (count >= sizeof word && end - at >= static_cast<std::ptrdiff_t>(sizeof word))
      std::memcpy(&word, at, sizeof word);
    if ((word & 0x8080808080808080) == 0) {
      sum += ((word & kBytes) + (word >> 8 & kBytes)) * 0x0001000100010001 >> 48;
      at += sizeof word;
      count -= sizeof word;
      continue;
    }
    std::uint64_t number = 0;
    at = get_small_varint(at, end, number);
    if (at == nullptr) return false;
    sum += number;
    --count;
  }
  return true;
}

/// Adds the ticks of the next `count` records in ColumnFormat::kCurrent. `same_time`: further records of the current
/// run, 0 at first.
bool add_runs(const std::uint8_t*& at, const std::uint8_t* end, std::uint32_t count, std::uint64_t& same_time,
              std::uint64_t& sum) {
  while (count != 0) {
    if (same_time != 0) {
      const auto taken = static_cast<std::uint32_t>(std::min<std::uint64_t>(same_time, count));
      same_time -= taken;
      count -= taken;
      continue;
    }
    std::uint64_t value = 0;
    at = get_small_varint(at, end, value);
    if (at == nullptr) return false;
    if ((value & 1) == 0) sum += value >> 1;
    else same_time = value >> 1;
    --count;
  }
  return true;
}

/// Adds `count` signed numbers of any size.
bool add_signed(const std::uint8_t*& at, const std::uint8_t* end, std::uint32_t count, std::uint64_t& sum) {
  for (; count != 0; --count) {
    std::uint64_t number = 0;
    at = get_varint(at, end, number);
    if (at == nullptr) return false;
    sum += static_cast<std::uint64_t>(unzigzag(number));
  }
  return true;
}

/// Whether the column may have the head of a text. The number is one byte, which others may contain, too.
bool may_have_text(const FrameColumns& columns) {
  const std::uint8_t* const begin = columns.begin[kHead];
  return std::memchr(begin, static_cast<int>(Op::kText) << 2 | 2,
                     static_cast<std::size_t>(columns.end[kHead] - begin)) != nullptr;
}

/// Whether `is_asked` is true of a number of the column that is not 0, or the column is malformed.
template <typename IsAsked>
bool any_of(const FrameColumns& columns, Column column, IsAsked&& is_asked) {
  const std::uint8_t* at = columns.begin[column];
  while (at != columns.end[column]) {
    if (*at == 0) {  // a free; the stack of the event before, or none
      ++at;
      continue;
    }
    std::uint64_t number = 0;
    at = get_small_varint(at, columns.end[column], number);
    if (at == nullptr || is_asked(number)) return true;
  }
  return false;
}

/// Decodes a number of the column kNode. `last`: the stack of the number before it.
std::uint32_t stack_of(ColumnFormat format, std::uint64_t number, std::uint32_t last) {
  if (format == ColumnFormat::kOld) return static_cast<std::uint32_t>(number);
  return last + static_cast<std::uint32_t>(unzigzag(number));
}

}  // namespace

/// False: the frame has nothing that is asked for, and no text. Looks at one column, and up to the first one asked
/// for.
bool AskedReader::may_have_any(ColumnFormat format, const FrameColumns& columns) const {
  if (may_have_text(columns)) return true;
  if (!asked_.nodes.empty() && !asked_.has_node(0)) {
    std::uint32_t stack = 0;
    return any_of(columns, kNode, [&](std::uint64_t number) {
      stack = stack_of(format, number, stack);
      return asked_.has_node(node_index_.find(stack));
    });
  }
  return any_of(columns, kHead, [&](std::uint64_t head) { return (head & 1) != 0 && asked_.has_size(head >> 2); });
}

/// Finds places, operations, sizes and nodes.
bool AskedReader::find(ColumnFormat format, const FrameColumns& columns, std::uint32_t record_count,
                       std::vector<MergedEvent>& events) {
  const std::uint8_t* head_at = columns.begin[kHead];
  const std::uint8_t* node_at = columns.begin[kNode];
  const std::uint8_t* const head_end = columns.end[kHead];
  const std::uint8_t* const node_end = columns.end[kNode];
  std::uint32_t addresses = 0;
  std::uint32_t stack = 0;
  for (std::uint32_t record = 0; record < record_count; ++record) {
    std::uint64_t head = 0;
    std::uint64_t number = 0;
    head_at = get_small_varint(head_at, head_end, head);
    if (head_at == nullptr) return false;
    if (head == 0) {  // a free
      ++addresses;
      continue;
    }
    if ((head & 1) != 0) [[likely]] {
      ++addresses;
      node_at = get_small_varint(node_at, node_end, number);
      if (node_at == nullptr) return false;
      stack = stack_of(format, number, stack);
      const std::uint64_t size = head >> 2;
      const std::uint32_t index = node_index_.find(stack);
      if (index == NodeIndex::kNoIndex) return false;
      if (!asked_.has_size(size) || !asked_.has_node(index)) continue;
      events.push_back({0, kSomeAddress, op_size((head & 2) == 0 ? Op::kAlloc : Op::kReallocEnd, size), index, 0});
      has_empty_realloc_ |= size == 0 && (head & 2) != 0;
      places_.push_back({record + 1, addresses});
      continue;
    }
    if (format == ColumnFormat::kCurrent && is_node_differences(head)) continue;  // all its numbers are in kRare
    const std::uint64_t op = head >> 2;
    if ((head & 2) == 0 || op == 0 || op > static_cast<std::uint64_t>(Op::kLast)) return false;
    if (static_cast<Op>(op) == Op::kText) return false;
    const OpFields fields = fields_of(static_cast<Op>(op));
    addresses += fields.heap_address;
    if (!fields.stack) continue;
    node_at = get_small_varint(node_at, node_end, number);
    if (node_at == nullptr) return false;
    stack = stack_of(format, number, stack);
  }
  return head_at == head_end && node_at == node_end;
}

bool AskedReader::read(ColumnFormat format, const std::uint8_t* columns, std::size_t size, std::uint64_t first_time,
                       std::uint32_t record_count, std::vector<MergedEvent>& events) {
  events.clear();
  places_.clear();
  has_empty_realloc_ = false;
  FrameColumns split;
  if (!split_columns(columns, size, split)) return false;
  if (!may_have_any(format, split)) return true;
  if (!find(format, split, record_count, events)) return false;
  const bool with_addresses = asked_.with_addresses || has_empty_realloc_;
  std::uint64_t time = first_time;
  std::uint64_t same_time = 0;
  std::uint64_t heap_address = 0;
  const auto add_times = [&](std::uint32_t count) {
    const std::uint8_t*& at = split.begin[kTime];
    return format == ColumnFormat::kOld ? add_small(at, split.end[kTime], count, time)
                                        : add_runs(at, split.end[kTime], count, same_time, time);
  };
  Place before{0, 0};
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Place place = places_[i];
    if (!add_times(place.records - before.records)) return false;
    events[i].time = time;
    if (with_addresses) {
      if (!add_signed(split.begin[kAddress], split.end[kAddress], place.addresses - before.addresses, heap_address))
        return false;
      events[i].address = std::rotl(heap_address, 4);
    }
    before = place;
  }
  return true;
}

}  // namespace heapprof::trace
