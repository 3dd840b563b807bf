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

/// Room that `slots` slots can need as columns. Slots lie in memory that others may write, and each column
/// reads them anew, so this holds whatever they contain at each reading: a head, a time, an address, a
/// stack, four other fields, and a slot's own size of text.
constexpr std::size_t column_bytes_bound(std::size_t slots) noexcept {
  return kColumns * sizeof(std::uint32_t) + slots * (8 * kMaxVarintBytes + sizeof(Slot));
}

struct EncodedBlock {
  std::size_t raw_bytes = 0;      ///< bytes written, column sizes included
  std::uint32_t record_count = 0;
  std::uint32_t event_count = 0;
  std::uint64_t first_time = 0;
  std::uint64_t last_time = 0;
};

/// Encodes `count` slots (text records with their continuation slots) into `out`, which must hold
/// column_bytes_bound(count). One pass a column, no memory of its own, no failure: of slots that no encoder
/// would have written the result is some columns or other, within that bound.
inline EncodedBlock encode_columns(const Slot* slots, std::uint32_t count, std::uint8_t* out) noexcept {
  EncodedBlock result;
  std::uint8_t* const sizes = out;
  out += kColumns * sizeof(std::uint32_t);
  const std::uint8_t* column_begin = out;
  const auto end_column = [&](Column column) noexcept {
    const auto bytes = static_cast<std::uint32_t>(out - column_begin);
    std::memcpy(sizes + column * sizeof bytes, &bytes, sizeof bytes);
    column_begin = out;
  };
  const auto for_each = [&](auto&& visit) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
      const Slot& slot = slots[i];
      std::uint32_t text_bytes = 0;
      if (slot.op() == Op::kText) [[unlikely]] {
        const std::uint32_t left = (count - i - 1) * static_cast<std::uint32_t>(sizeof(Slot));
        text_bytes = *static_cast<const volatile std::uint32_t*>(&slot.aux);
        if (text_bytes > left) text_bytes = left;
      }
      visit(slot, text_bytes);
      i += text_slots(text_bytes);
    }
  };

  if (count != 0) result.first_time = slots[0].time;
  std::uint64_t last_time = result.first_time;

  for_each([&](const Slot& slot, std::uint32_t) noexcept {
    const Op op = slot.op();
    ++result.record_count;
    result.event_count += is_event(slot);
    if (op == Op::kAlloc) out = put_varint(out, slot.size() << 2 | 1);
    else if (op == Op::kFree) *out++ = 0;
    else if (op == Op::kReallocEnd) out = put_varint(out, slot.size() << 2 | 3);
    else out = put_varint(out, std::uint64_t{static_cast<std::uint8_t>(op)} << 2 | 2);
  });
  end_column(kHead);

  for_each([&](const Slot& slot, std::uint32_t) noexcept {
    out = put_varint(out, slot.time - last_time);
    last_time = slot.time;
  });
  end_column(kTime);
  result.last_time = last_time;

  std::uint64_t last_address = 0;
  for_each([&](const Slot& slot, std::uint32_t) noexcept {
    if (!fields_of(slot.op()).heap_address) return;
    const std::uint64_t address = std::rotr(slot.address, 4);
    out = put_varint(out, zigzag(static_cast<std::int64_t>(address - last_address)));
    last_address = address;
  });
  end_column(kAddress);

  for_each([&](const Slot& slot, std::uint32_t) noexcept {
    if (fields_of(slot.op()).stack) out = put_varint(out, slot.node);
  });
  end_column(kNode);

  for_each([&](const Slot& slot, std::uint32_t) noexcept {
    const OpFields fields = fields_of(slot.op());
    if (fields.size) out = put_varint(out, slot.size());
    if (fields.address) out = put_varint(out, slot.address);
    if (fields.node) out = put_varint(out, slot.node);
    if (fields.aux) out = put_varint(out, slot.aux);
  });
  end_column(kRare);

  for_each([&](const Slot& slot, std::uint32_t text_bytes) noexcept {
    std::memcpy(out, &slot + 1, text_bytes);
    out += text_bytes;
  });
  end_column(kText);

  result.raw_bytes = static_cast<std::size_t>(out - sizes);
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
/// but a caller that has checked the frame's checksum never sees one.
template <typename Visit>
DecodeError decode_columns(const std::uint8_t* bytes, std::size_t size, std::uint64_t first_time,
                           std::uint32_t record_count, Visit&& visit) {
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

  bool ok = true;
  const auto get = [&](Column column) noexcept {
    std::uint64_t value = 0;
    const std::uint8_t* after = get_varint(at[column], end[column], value);
    if (after == nullptr) [[unlikely]] ok = false;
    else at[column] = after;
    return value;
  };

  std::uint64_t time = first_time;
  std::uint64_t heap_address = 0;
  for (std::uint32_t i = 0; i < record_count; ++i) {
    const std::uint64_t head = get(kHead);
    Slot slot{};
    Op op;
    std::uint64_t size_field = 0;
    switch (head & 3) {
      case 0: op = Op::kFree; if (head != 0) return DecodeError::kBadOp; break;
      case 1: op = Op::kAlloc; size_field = head >> 2; break;
      case 3: op = Op::kReallocEnd; size_field = head >> 2; break;
      default:
        if (head >> 2 == 0 || head >> 2 > static_cast<std::uint64_t>(Op::kLast)) return DecodeError::kBadOp;
        op = static_cast<Op>(head >> 2);
    }
    time += get(kTime);
    slot.time = time;
    const OpFields fields = fields_of(op);
    if (fields.heap_address) {
      heap_address += static_cast<std::uint64_t>(unzigzag(get(kAddress)));
      slot.address = std::rotl(heap_address, 4);
    }
    if (fields.stack) slot.node = static_cast<std::uint32_t>(get(kNode));
    if (fields.size) size_field = get(kRare);
    if (fields.address) slot.address = get(kRare);
    if (fields.node) slot.node = static_cast<std::uint32_t>(get(kRare));
    if (fields.aux) slot.aux = static_cast<std::uint32_t>(get(kRare));
    if (!ok) [[unlikely]] return DecodeError::kBadVarint;
    slot.op_size = op_size(op, size_field);
    const std::uint8_t* text = nullptr;
    if (op == Op::kText) {
      if (slot.aux > kMaxTextBytes || slot.aux > static_cast<std::size_t>(end[kText] - at[kText])) return DecodeError::kTextBounds;
      text = at[kText];
      at[kText] += slot.aux;
    }
    visit(static_cast<const Slot&>(slot), text);
  }
  for (unsigned column = 0; column < kColumns; ++column)
    if (at[column] != end[column]) return DecodeError::kTrailing;
  return DecodeError::kNone;
}

}  // namespace heapprof
