// A block of records as columns: encoder and decoder side by side.
//
// The recorder turns the slots of a full staging block into columns, compresses them with LZ4 as one
// piece and appends the result as a frame. Equal things stand together in a column, and LZ4 is much
// better on that than on slots as they are. The columns, in this order, each a sequence of varints
// except the last:
//
//   head     one a record: what it is, with the size where it has one
//              0                 kFree
//              size << 2 | 1     kAlloc
//              op << 2 | 2       any other op but kReallocEnd; its size, if it has one, is in `rare`
//              size << 2 | 3     kReallocEnd
//   time     one a record: ticks since the record before it; the first: since the frame's first_time
//   address  heap addresses: rotated right by 4 (blocks are 16-aligned, so the low bits of a block's
//            address are zero), less the one before, zigzag
//   node     the stacks of events
//   rare     the other fields of the other ops, in the order of kFields below
//   text     the bytes of text records
//
// The sizes of the columns stand in front of them, as kColumns little-endian 32-bit numbers.
//
// A head of 58 bits holds every size (kMaxSize is 2^56 - 1).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/trace_format.h"
#include "common/varint.h"

namespace heapprof {

enum Column : unsigned { kHead, kTime, kAddress, kNode, kRare, kText, kColumns };

/// Which fields of a Slot an op uses, and the column that holds each.
struct OpFields {
  bool heap_address : 1;  ///< address, in kAddress
  bool stack : 1;         ///< node, in kNode
  bool size : 1;          ///< size, in kRare (kAlloc and kReallocEnd: in kHead)
  bool address : 1;       ///< address, in kRare
  bool node : 1;          ///< node, in kRare
  bool aux : 1;           ///< aux, in kRare
};

/// The fields of `op`; an unknown op has none.
constexpr OpFields fields_of(Op op) noexcept {
  //                    heap_address stack size   address node   aux
  switch (op) {
    case Op::kAlloc:         return {true, true, false, false, false, false};
    case Op::kFree:          return {true, false, false, false, false, false};
    case Op::kFreeStack:     return {true, true, false, false, false, false};
    case Op::kReallocBegin:  return {true, false, false, false, false, false};
    case Op::kReallocEnd:    return {true, true, false, false, false, false};
    case Op::kReallocFailed: return {false, true, true, false, false, false};
    case Op::kAllocFailed:   return {false, true, true, false, false, false};
    case Op::kMap:           return {false, true, true, true, false, true};
    case Op::kUnmapBegin:    return {false, false, true, true, false, false};
    case Op::kUnmapEnd:      return {};
    case Op::kUnmapFailed:   return {};
    case Op::kRemapBegin:    return {false, false, true, true, false, false};
    case Op::kRemapEnd:      return {false, true, true, true, false, false};
    case Op::kRemapFailed:   return {};
    case Op::kBrk:           return {false, true, true, true, false, false};
    case Op::kNode:          return {false, false, true, true, true, true};
    case Op::kSample:        return {false, false, true, true, false, false};
    case Op::kText:          return {false, false, true, true, true, true};
    case Op::kBlockStart:    return {false, false, false, true, false, false};
    case Op::kPause:
    case Op::kResume:
    case Op::kNone:          return {};
  }
  return {};
}

/// Room for each column, a slot: a head; a time; an address; a stack of 5 bytes; four fields of 10, 10, 5 and 5; a
/// continuation slot of text. put_varint may write 8 bytes where 5 are due, which adds 3.
inline constexpr std::size_t kColumnRoom[kColumns] = {10, 10, 10, 8, 33, sizeof(Slot)};

/// Room that encode_columns needs for `slots` slots, whatever they contain.
constexpr std::size_t column_bytes_bound(std::size_t slots) noexcept {
  std::size_t room = 0;
  for (const std::size_t bytes : kColumnRoom) room += bytes;
  return kColumns * sizeof(std::uint32_t) + slots * room;
}

struct EncodedBlock {
  std::size_t raw_bytes = 0;  ///< bytes written, column sizes included
  std::uint32_t record_count = 0;
  std::uint32_t event_count = 0;
  std::uint64_t first_time = 0;
  std::uint64_t last_time = 0;
};

/// Encodes `count` slots (text records with their continuation slots) into `out`, which must hold
/// column_bytes_bound(count). One pass that fills all columns, each in its share of `out`, which are then moved
/// together. No memory of its own, no failure.
///
/// The slots lie in memory that others may write while this reads, so what decides a bound or a branch is read
/// exactly once. Of slots that no encoder would have written the result is some columns or other.
inline EncodedBlock encode_columns(const Slot* slots, std::uint32_t count, std::uint8_t* out) noexcept {
  EncodedBlock result;
  std::uint8_t* begin[kColumns];
  std::uint8_t* at[kColumns];
  std::uint8_t* share = out + kColumns * sizeof(std::uint32_t);
  for (unsigned column = 0; column < kColumns; ++column) {
    begin[column] = at[column] = share;
    share += kColumnRoom[column] * count;
  }
  // In registers, as nearly all records use these only.
  std::uint8_t* head = begin[kHead];
  std::uint8_t* time = begin[kTime];
  std::uint8_t* address = begin[kAddress];
  std::uint8_t* node = begin[kNode];

  std::uint64_t last_address = 0;
  const auto put_address = [&](std::uint64_t value) noexcept {
    const std::uint64_t rotated = std::rotr(value, 4);
    address = put_varint(address, zigzag(static_cast<std::int64_t>(rotated - last_address)));
    last_address = rotated;
  };

  if (count != 0) result.first_time = slots[0].time;
  std::uint64_t last_time = result.first_time;
  std::uint32_t no_events = 0;      // records that are none
  std::uint32_t continuations = 0;  // slots that are no records
  const Slot* const stop = slots + count;
  for (const Slot* slot = slots; slot < stop; ++slot) {
    const std::uint64_t word = *static_cast<const volatile std::uint64_t*>(&slot->op_size);
    const Op op = static_cast<Op>(word & 0xff);
    const std::uint64_t size = word >> 8;
    const std::uint64_t now = *static_cast<const volatile std::uint64_t*>(&slot->time);
    time = put_varint(time, now - last_time);
    last_time = now;

    if (op == Op::kFree) {
      *head++ = 0;
      put_address(slot->address);
    } else if (op == Op::kAlloc) {
      head = put_varint(head, size << 2 | 1);
      put_address(slot->address);
      node = put_varint(node, slot->node);
    } else [[unlikely]] {
      no_events += !is_event(*slot);
      head = op == Op::kReallocEnd ? put_varint(head, size << 2 | 3) : put_varint(head, (word & 0xff) << 2 | 2);
      const OpFields fields = fields_of(op);
      if (fields.heap_address) put_address(slot->address);
      if (fields.stack) node = put_varint(node, slot->node);
      std::uint8_t* rare = at[kRare];
      if (fields.size) rare = put_varint(rare, size);
      if (fields.address) rare = put_varint(rare, slot->address);
      if (fields.node) rare = put_varint(rare, slot->node);
      const std::uint32_t aux = *static_cast<const volatile std::uint32_t*>(&slot->aux);
      if (fields.aux) rare = put_varint(rare, aux);
      at[kRare] = rare;
      if (op == Op::kText) {
        const auto left = static_cast<std::uint32_t>(stop - slot - 1) * static_cast<std::uint32_t>(sizeof(Slot));
        const std::uint32_t bytes = aux < left ? aux : left;
        std::memcpy(at[kText], slot + 1, bytes);
        at[kText] += bytes;
        slot += text_slots(bytes);
        continuations += text_slots(bytes);
      }
    }
  }
  result.record_count = count - continuations;
  result.event_count = result.record_count - no_events;
  at[kHead] = head;
  at[kTime] = time;
  at[kAddress] = address;
  at[kNode] = node;
  result.last_time = last_time;

  std::uint8_t* end = out + kColumns * sizeof(std::uint32_t);
  for (unsigned column = 0; column < kColumns; ++column) {
    const auto bytes = static_cast<std::uint32_t>(at[column] - begin[column]);
    std::memcpy(out + column * sizeof bytes, &bytes, sizeof bytes);
    std::memmove(end, begin[column], bytes);
    end += bytes;
  }
  result.raw_bytes = static_cast<std::size_t>(end - out);
  return result;
}

/// Why a block could not be decoded.
enum class DecodeError : std::uint8_t {
  kNone,
  kColumnSizes,  ///< the columns do not fill the bytes given
  kBadVarint,    ///< a column ends early, or a number is too long
  kBadOp,        ///< an op this version does not know
  kTextBounds,   ///< a text longer than kMaxTextBytes or than its column
  kTrailing,     ///< a column has more than the records use
};

/// Decodes columns record by record. `visit(slot, text)` is called for each; `text` points to slot.aux
/// bytes for kText and is null otherwise. What was visited before an error is right as far as it goes,
/// but a caller that has checked the frame's checksum never sees one. Always inline, so that what `visit` counts can
/// stay in registers.
template <typename Visit>
[[gnu::always_inline]] inline DecodeError decode_columns(const std::uint8_t* bytes, std::size_t size,
                                                         std::uint64_t first_time, std::uint32_t record_count,
                                                         Visit&& visit) {
  const std::uint8_t* at[kColumns];
  const std::uint8_t* end[kColumns];
  if (size < kColumns * sizeof(std::uint32_t)) return DecodeError::kColumnSizes;
  const std::uint8_t* next = bytes + kColumns * sizeof(std::uint32_t);
  std::size_t left = size - kColumns * sizeof(std::uint32_t);
  for (unsigned column = 0; column < kColumns; ++column) {
    std::uint32_t column_size;
    std::memcpy(&column_size, bytes + column * sizeof column_size, sizeof column_size);
    if (column_size > left) return DecodeError::kColumnSizes;
    at[column] = next;
    end[column] = next += column_size;
    left -= column_size;
  }
  if (left != 0) return DecodeError::kColumnSizes;

  // Of four ops in five only these columns matter: their places are kept in registers, the rest in `at`.
  const std::uint8_t* head_at = at[kHead];
  const std::uint8_t* time_at = at[kTime];
  const std::uint8_t* address_at = at[kAddress];
  const std::uint8_t* node_at = at[kNode];
  const std::uint8_t* const head_end = end[kHead];
  const std::uint8_t* const time_end = end[kTime];
  const std::uint8_t* const address_end = end[kAddress];
  const std::uint8_t* const node_end = end[kNode];

  bool ok = true;
  const auto get = [&ok](const std::uint8_t*& column_at, const std::uint8_t* column_end) noexcept {
    std::uint64_t value = 0;
    const std::uint8_t* after = get_varint(column_at, column_end, value);
    if (after == nullptr) [[unlikely]] ok = false;
    else column_at = after;
    return value;
  };
  const auto get_small = [&ok](const std::uint8_t*& column_at, const std::uint8_t* column_end) noexcept {
    std::uint64_t value = 0;
    const std::uint8_t* after = get_small_varint(column_at, column_end, value);
    if (after == nullptr) [[unlikely]] ok = false;
    else column_at = after;
    return value;
  };
  const auto get_rare = [&]() noexcept { return get(at[kRare], end[kRare]); };

  std::uint64_t time = first_time;
  std::uint64_t heap_address = 0;
  for (std::uint32_t i = 0; i < record_count; ++i) {
    const std::uint64_t head = get_small(head_at, head_end);
    time += get_small(time_at, time_end);
    const std::uint64_t kind = head & 3;
    if (kind != 2) [[likely]] {
      if (kind == 0 && head != 0) return DecodeError::kBadOp;
      heap_address += static_cast<std::uint64_t>(unzigzag(get(address_at, address_end)));
      std::uint64_t node = 0;
      if (kind != 0) node = get_small(node_at, node_end);
      if (!ok) [[unlikely]] return DecodeError::kBadVarint;
      visit(Slot{time, std::rotl(heap_address, 4),
                 op_size(kind == 0 ? Op::kFree : kind == 1 ? Op::kAlloc : Op::kReallocEnd, head >> 2),
                 static_cast<std::uint32_t>(node), 0},
            static_cast<const std::uint8_t*>(nullptr));
      continue;
    }
    if (head >> 2 == 0 || head >> 2 > static_cast<std::uint64_t>(Op::kLast)) return DecodeError::kBadOp;
    const Op op = static_cast<Op>(head >> 2);
    const OpFields fields = fields_of(op);
    Slot slot{};
    slot.time = time;
    if (fields.heap_address) {
      heap_address += static_cast<std::uint64_t>(unzigzag(get(address_at, address_end)));
      slot.address = std::rotl(heap_address, 4);
    }
    if (fields.stack) slot.node = static_cast<std::uint32_t>(get_small(node_at, node_end));
    slot.op_size = op_size(op, fields.size ? get_rare() : 0);
    if (fields.address) slot.address = get_rare();
    if (fields.node) slot.node = static_cast<std::uint32_t>(get_rare());
    if (fields.aux) slot.aux = static_cast<std::uint32_t>(get_rare());
    if (!ok) [[unlikely]] return DecodeError::kBadVarint;
    const std::uint8_t* text = nullptr;
    if (op == Op::kText) {
      if (slot.aux > kMaxTextBytes || slot.aux > static_cast<std::size_t>(end[kText] - at[kText]))
        return DecodeError::kTextBounds;
      text = at[kText];
      at[kText] += slot.aux;
    }
    visit(slot, text);
  }
  at[kHead] = head_at;
  at[kTime] = time_at;
  at[kAddress] = address_at;
  at[kNode] = node_at;
  for (unsigned column = 0; column < kColumns; ++column)
    if (at[column] != end[column]) return DecodeError::kTrailing;
  return DecodeError::kNone;
}

}  // namespace heapprof
