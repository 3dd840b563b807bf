// A block of records as columns: encoder and decoder.
//
// The recorder converts the slots of a full staging block to columns, compresses these as one LZ4 block, and appends
// the result as a frame. LZ4 compresses columns, in which similar values are adjacent, much better than slots. The
// frame's content is the sizes of the kColumns columns in bytes (32 bits each, little-endian), and then the columns
// in the order of enum Column. All columns but the last are sequences of varints.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/trace_format.h"
#include "common/varint.h"

namespace heapprof {

enum Column : unsigned {
  /// One per record: the op, and for kAlloc and kReallocEnd also the size.
  ///   0                 kFree
  ///   size << 2 | 1     kAlloc           (kMaxSize is 2^56 - 1, so 58 bits are enough)
  ///   op << 2 | 2       any other op except kReallocEnd; its size, if it has one, is in kRare
  ///   size << 2 | 3     kReallocEnd
  /// A node that is encoded as differences has kNodeDifferences, with flags, in place of the op.
  kHead,
  /// For each record with another time than the previous one, or than the frame's first_time:
  ///   (ticks since then) << 1          (times never decrease, so 63 bits are enough)
  /// For each run of records with the same time as the previous one:
  ///   (length of the run - 1) << 1 | 1
  /// kOld: one number per record, the ticks.
  kTime,
  /// Heap addresses, rotated right by 4 (blocks are 16-aligned, so their low bits are zero): difference to the
  /// previous one, zigzag.
  kAddress,
  /// The stacks of events: difference to the previous one in the column, zigzag. kOld: the stacks.
  kNode,
  /// All fields of less frequent ops that the columns above do not hold, in the order of OpFields.
  kRare,
  /// The bytes of text records.
  kText,
  kColumns
};

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
    case Op::kAlloc: return {true, true, false, false, false, false};
    case Op::kFree: return {true, false, false, false, false, false};
    case Op::kFreeStack: return {true, true, false, false, false, false};
    case Op::kReallocBegin: return {true, false, false, false, false, false};
    case Op::kReallocEnd: return {true, true, false, false, false, false};
    case Op::kReallocFailed: return {false, true, true, false, false, false};
    case Op::kAllocFailed: return {false, true, true, false, false, false};
    case Op::kMap: return {false, true, true, true, false, true};
    case Op::kUnmapBegin: return {false, false, true, true, false, false};
    case Op::kUnmapEnd: return {};
    case Op::kUnmapFailed: return {};
    case Op::kRemapBegin: return {false, false, true, true, false, false};
    case Op::kRemapEnd: return {false, true, true, true, false, false};
    case Op::kRemapFailed: return {};
    case Op::kBrk: return {false, true, true, true, false, false};
    case Op::kNode: return {false, false, true, true, true, true};
    case Op::kSample: return {false, false, true, true, false, false};
    case Op::kText: return {false, false, true, true, true, true};
    case Op::kBlockStart: return {false, false, false, true, false, false};
    case Op::kPause:
    case Op::kResume:
    case Op::kNone: return {};
  }
  return {};
}

/// How the records of a frame are encoded in its columns.
enum class ColumnFormat : std::uint8_t {
  kOld,  ///< of recordings of version 1, which are still read
  kCurrent,
};

constexpr ColumnFormat column_format(FrameCodec codec) noexcept {
  return codec == FrameCodec::kColumnsLz4 ? ColumnFormat::kCurrent : ColumnFormat::kOld;
}

/// A node is encoded as differences to the last node, which is that of the record before it in the frame that is
/// encoded in this way; without one, number and module of the last node are 0. kRare has the numbers whose flags are
/// in kHead, in this order, and then the offset:
///
///   flag              number                           without it
///   kNodeHasNumber    number - last number             1
///   kNodeHasParent    number - parent                  the parent is the last node
///   kNodeHasModule    module << 1 | aux                the module of the last node, aux 0
///
/// Differences are modulo 2^32. A recorder numbers nodes in the order of their definitions, so most nodes of a new
/// stack have only an offset. A node whose aux is neither 0 nor 1, which no recorder writes, has all fields in full.
inline constexpr std::uint64_t kNodeDifferences = 24;
inline constexpr std::uint64_t kNodeHasNumber = 1;
inline constexpr std::uint64_t kNodeHasParent = 2;
inline constexpr std::uint64_t kNodeHasModule = 4;
inline constexpr std::uint64_t kNodeFlags = kNodeHasNumber | kNodeHasParent | kNodeHasModule;
static_assert(static_cast<std::uint64_t>(Op::kLast) < kNodeDifferences && (kNodeDifferences & kNodeFlags) == 0);
static_assert(((kNodeDifferences | kNodeFlags) << 2 | 2) < 0x80, "a head of one byte");

/// Whether the record with this head is a node that is encoded as differences. Such heads occur only in
/// ColumnFormat::kCurrent.
constexpr bool is_node_differences(std::uint64_t head) noexcept {
  return (head & 3) == 2 && (head >> 2 & ~kNodeFlags) == kNodeDifferences;
}

/// The fields of the last node that was encoded as differences.
struct LastNode {
  std::uint32_t number = 0;
  std::uint32_t module = 0;
};

/// The maximum number of bytes that a slot needs in each column: a head; a time, or its part of a run; an address; a
/// stack (5); fields of 10, 10, 5 and 5; a continuation slot of text. put_varint may write 8 bytes where 5 are
/// needed, so kNode and kRare have 3 more.
inline constexpr std::size_t kMaxColumnBytes[kColumns] = {10, 10, 10, 8, 33, sizeof(Slot)};

/// The bytes that encode_columns needs for `slots` slots, whatever they contain.
constexpr std::size_t column_bytes_bound(std::size_t slots) noexcept {
  std::size_t slot_bytes = 0;
  for (const std::size_t bytes : kMaxColumnBytes) slot_bytes += bytes;
  return kColumns * sizeof(std::uint32_t) + slots * slot_bytes;
}

struct EncodedBlock {
  std::size_t raw_bytes = 0;  ///< bytes written, with the sizes of the columns
  std::uint32_t record_count = 0;
  std::uint32_t event_count = 0;
  std::uint32_t node_count = 0;  ///< nodes that are encoded as differences
  std::uint64_t first_time = 0;
  std::uint64_t last_time = 0;
};

/// Writes a run of `count` records, at least one.
inline std::uint8_t* put_run(std::uint8_t* time, std::uint32_t count) noexcept {
  return put_varint(time, std::uint64_t{count - 1} << 1 | 1);
}

inline std::uint8_t* put_stack(std::uint8_t* node, std::uint32_t stack, std::uint32_t last) noexcept {
  return put_varint(node, zigzag(std::int64_t{stack} - std::int64_t{last}));
}

/// Writes what kRare has of the node in `slot`, and returns the head. `size`, `aux`: of the slot, to which other
/// processes may write; aux is at most 1.
inline std::uint8_t put_node(std::uint8_t*& rare, const Slot& slot, std::uint64_t size, std::uint32_t aux,
                             LastNode& last) noexcept {
  const std::uint32_t number = slot.node;
  const auto parent = static_cast<std::uint32_t>(size);
  const auto module = static_cast<std::uint32_t>(size >> 32);
  std::uint64_t code = kNodeDifferences;
  if (number != last.number + 1) {
    code |= kNodeHasNumber;
    rare = put_varint(rare, number - last.number);
  }
  if (parent != last.number) {
    code |= kNodeHasParent;
    rare = put_varint(rare, number - parent);
  }
  if (module != last.module || aux != 0) {
    code |= kNodeHasModule;
    rare = put_varint(rare, std::uint64_t{module} << 1 | aux);
  }
  rare = put_varint(rare, slot.address);
  last = {number, module};
  return static_cast<std::uint8_t>(code << 2 | 2);
}

/// Encodes `count` slots (text records with their continuation slots) as kCurrent into `out`, which must have
/// column_bytes_bound(count) bytes. One pass fills all columns, each in its own part of `out`; then the columns are
/// moved so that they are adjacent. Allocates nothing and cannot fail; safe in signal handlers.
///
/// Other processes may write to the slots meanwhile, so each value that determines what memory is read or written is
/// read exactly once. If they do, the columns contain arbitrary values.
inline EncodedBlock encode_columns(const Slot* slots, std::uint32_t count, std::uint8_t* out) noexcept {
  EncodedBlock result;
  std::uint8_t* begin[kColumns];
  std::uint8_t* at[kColumns];
  std::uint8_t* part = out + kColumns * sizeof(std::uint32_t);
  for (unsigned column = 0; column < kColumns; ++column) {
    begin[column] = at[column] = part;
    part += kMaxColumnBytes[column] * count;
  }
  // The positions of these columns are kept in registers: most records use no others.
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
  std::uint32_t same_time = 0;  // records of the current run
  std::uint32_t last_stack = 0;
  std::uint32_t other_records = 0;  // records that are no events
  std::uint32_t continuations = 0;  // slots that are not records
  LastNode last_node;
  const Slot* const stop = slots + count;
  for (const Slot* slot = slots; slot < stop; ++slot) {
    const std::uint64_t word = *static_cast<const volatile std::uint64_t*>(&slot->op_size);
    const Op op = static_cast<Op>(word & 0xff);
    const std::uint64_t size = word >> 8;
    const std::uint64_t now = *static_cast<const volatile std::uint64_t*>(&slot->time);
    if (now == last_time) [[likely]] {
      ++same_time;
    } else {
      if (same_time != 0) time = put_run(time, same_time);
      same_time = 0;
      time = put_varint(time, (now - last_time) << 1);
      last_time = now;
    }

    if (op == Op::kFree) {
      *head++ = 0;
      put_address(slot->address);
    } else if (op == Op::kAlloc) {
      head = put_varint(head, size << 2 | 1);
      put_address(slot->address);
      const std::uint32_t stack = slot->node;
      node = put_stack(node, stack, last_stack);
      last_stack = stack;
    } else [[unlikely]] {
      other_records += !is_event(*slot);
      const std::uint32_t aux = *static_cast<const volatile std::uint32_t*>(&slot->aux);
      if (op == Op::kNode && aux <= 1) {
        *head++ = put_node(at[kRare], *slot, size, aux, last_node);
        ++result.node_count;
        continue;
      }
      head = op == Op::kReallocEnd ? put_varint(head, size << 2 | 3) : put_varint(head, (word & 0xff) << 2 | 2);
      const OpFields fields = fields_of(op);
      if (fields.heap_address) put_address(slot->address);
      if (fields.stack) {
        const std::uint32_t stack = slot->node;
        node = put_stack(node, stack, last_stack);
        last_stack = stack;
      }
      std::uint8_t* rare = at[kRare];
      if (fields.size) rare = put_varint(rare, size);
      if (fields.address) rare = put_varint(rare, slot->address);
      if (fields.node) rare = put_varint(rare, slot->node);
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
  if (same_time != 0) time = put_run(time, same_time);
  result.record_count = count - continuations;
  result.event_count = result.record_count - other_records;
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
  kBadOp,        ///< an unknown op
  kTextBounds,   ///< a text longer than kMaxTextBytes or than its column
  kTrailing,     ///< a column is longer than the records need
};

/// The columns of a frame, each [begin, end).
struct FrameColumns {
  const std::uint8_t* begin[kColumns];
  const std::uint8_t* end[kColumns];
};

/// False: they do not fill the bytes given.
inline bool split_columns(const std::uint8_t* bytes, std::size_t size, FrameColumns& columns) noexcept {
  if (size < kColumns * sizeof(std::uint32_t)) return false;
  const std::uint8_t* next = bytes + kColumns * sizeof(std::uint32_t);
  std::size_t left = size - kColumns * sizeof(std::uint32_t);
  for (unsigned column = 0; column < kColumns; ++column) {
    std::uint32_t column_size;
    std::memcpy(&column_size, bytes + column * sizeof column_size, sizeof column_size);
    if (column_size > left) return false;
    columns.begin[column] = next;
    columns.end[column] = next += column_size;
    left -= column_size;
  }
  return left == 0;
}

/// decode_columns() of columns whose format is known at compile time.
template <ColumnFormat kFormat, typename Visit>
[[gnu::always_inline]] inline DecodeError decode_columns_as(const std::uint8_t* bytes, std::size_t size,
                                                            std::uint64_t first_time, std::uint32_t record_count,
                                                            Visit&& visit) {
  FrameColumns columns;
  if (!split_columns(bytes, size, columns)) return DecodeError::kColumnSizes;
  auto& at = columns.begin;
  const auto& end = columns.end;

  // The positions of these columns are kept in registers: most records use no others.
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
    if (after == nullptr) [[unlikely]]
      ok = false;
    else column_at = after;
    return value;
  };
  const auto get_small = [&ok](const std::uint8_t*& column_at, const std::uint8_t* column_end) noexcept {
    std::uint64_t value = 0;
    const std::uint8_t* after = get_small_varint(column_at, column_end, value);
    if (after == nullptr) [[unlikely]]
      ok = false;
    else column_at = after;
    return value;
  };
  const auto get_rare = [&]() noexcept { return get(at[kRare], end[kRare]); };
  std::uint32_t last_stack = 0;
  const auto get_stack = [&]() noexcept {
    const std::uint64_t value = get_small(node_at, node_end);
    if (kFormat == ColumnFormat::kOld) return static_cast<std::uint32_t>(value);
    last_stack += static_cast<std::uint32_t>(unzigzag(value));
    return last_stack;
  };
  LastNode last_node;

  std::uint64_t time = first_time;
  std::uint64_t same_time = 0;  // further records of the current run
  const auto next_time = [&]() noexcept {
    if (kFormat == ColumnFormat::kOld) {
      time += get_small(time_at, time_end);
    } else if (same_time != 0) {
      --same_time;
    } else {
      const std::uint64_t value = get_small(time_at, time_end);
      if ((value & 1) == 0) time += value >> 1;
      else same_time = value >> 1;
    }
  };
  std::uint64_t heap_address = 0;
  for (std::uint32_t i = 0; i < record_count; ++i) {
    const std::uint64_t head = get_small(head_at, head_end);
    next_time();
    const std::uint64_t kind = head & 3;
    if (kind != 2) [[likely]] {
      if (kind == 0 && head != 0) return DecodeError::kBadOp;
      heap_address += static_cast<std::uint64_t>(unzigzag(get(address_at, address_end)));
      std::uint32_t node = 0;
      if (kind != 0) node = get_stack();
      if (!ok) [[unlikely]]
        return DecodeError::kBadVarint;
      visit(Slot{time, std::rotl(heap_address, 4),
                 op_size(kind == 0   ? Op::kFree
                         : kind == 1 ? Op::kAlloc
                                     : Op::kReallocEnd,
                         head >> 2),
                 node, 0},
            static_cast<const std::uint8_t*>(nullptr));
      continue;
    }
    Slot slot{};
    slot.time = time;
    if (kFormat == ColumnFormat::kCurrent && is_node_differences(head)) {
      const std::uint64_t flags = head >> 2 & kNodeFlags;
      std::uint32_t parent = last_node.number;
      last_node.number += (flags & kNodeHasNumber) != 0 ? static_cast<std::uint32_t>(get_rare()) : 1u;
      if ((flags & kNodeHasParent) != 0) parent = last_node.number - static_cast<std::uint32_t>(get_rare());
      if ((flags & kNodeHasModule) != 0) {
        const std::uint64_t module_and_aux = get_rare();
        last_node.module = static_cast<std::uint32_t>(module_and_aux >> 1) & 0xffffff;  // as many bits as in a slot
        slot.aux = static_cast<std::uint32_t>(module_and_aux & 1);
      }
      slot.node = last_node.number;
      slot.op_size = op_size(Op::kNode, parent | std::uint64_t{last_node.module} << 32);
      slot.address = get_rare();
    } else {
      if (head >> 2 == 0 || head >> 2 > static_cast<std::uint64_t>(Op::kLast)) return DecodeError::kBadOp;
      const Op op = static_cast<Op>(head >> 2);
      const OpFields fields = fields_of(op);
      if (fields.heap_address) {
        heap_address += static_cast<std::uint64_t>(unzigzag(get(address_at, address_end)));
        slot.address = std::rotl(heap_address, 4);
      }
      if (fields.stack) slot.node = get_stack();
      slot.op_size = op_size(op, fields.size ? get_rare() : 0);
      if (fields.address) slot.address = get_rare();
      if (fields.node) slot.node = static_cast<std::uint32_t>(get_rare());
      if (fields.aux) slot.aux = static_cast<std::uint32_t>(get_rare());
    }
    if (!ok) [[unlikely]]
      return DecodeError::kBadVarint;
    const std::uint8_t* text = nullptr;
    if (slot.op() == Op::kText) {
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
  if (same_time != 0) return DecodeError::kTrailing;
  for (unsigned column = 0; column < kColumns; ++column)
    if (at[column] != end[column]) return DecodeError::kTrailing;
  return DecodeError::kNone;
}

/// Decodes columns record by record and calls `visit(slot, text)` for each; `text` points to slot.aux bytes for kText
/// and is null otherwise. Records that were visited before an error are valid. An error in a frame with a right
/// checksum means that another process wrote to the slots (encode_columns). Always inlined, so that counters of
/// `visit` can stay in registers.
template <typename Visit>
[[gnu::always_inline]] inline DecodeError decode_columns(ColumnFormat format, const std::uint8_t* bytes,
                                                         std::size_t size, std::uint64_t first_time,
                                                         std::uint32_t record_count, Visit&& visit) {
  return format == ColumnFormat::kCurrent
             ? decode_columns_as<ColumnFormat::kCurrent>(bytes, size, first_time, record_count, visit)
             : decode_columns_as<ColumnFormat::kOld>(bytes, size, first_time, record_count, visit);
}

}  // namespace heapprof
