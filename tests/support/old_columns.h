// Encodes records as recordings of version 1 have them, for tests that such traces stay readable. Written from
// docs/concepts/trace-format.md; nothing here must change.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/trace_format.h"

namespace heapprof::test {

class OldColumns {
 public:
  /// `slots`: of a block, with the continuation slots of texts.
  explicit OldColumns(const std::vector<Slot>& slots) {
    std::uint64_t last_time = slots.empty() ? 0 : slots.front().time;
    std::uint64_t last_address = 0;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const Slot& slot = slots[i];
      put(kTime, slot.time - last_time);
      last_time = slot.time;
      switch (slot.op()) {
        case Op::kFree: put(kHead, 0); break;
        case Op::kAlloc: put(kHead, slot.size() << 2 | 1); break;
        case Op::kReallocEnd: put(kHead, slot.size() << 2 | 3); break;
        default: put(kHead, static_cast<std::uint64_t>(slot.op()) << 2 | 2); break;
      }
      const Fields fields = fields_of(slot.op());
      if (fields.heap_address) {
        const std::uint64_t rotated = std::rotr(slot.address, 4);
        const auto difference = static_cast<std::int64_t>(rotated - last_address);
        put(kAddress, static_cast<std::uint64_t>(difference) << 1 ^ static_cast<std::uint64_t>(difference >> 63));
        last_address = rotated;
      }
      if (fields.stack) put(kNode, slot.node);
      if (fields.size) put(kRare, slot.size());
      if (fields.address) put(kRare, slot.address);
      if (fields.node_and_aux) put(kRare, slot.node);
      if (fields.node_and_aux || slot.op() == Op::kMap) put(kRare, slot.aux);
      if (slot.op() != Op::kText) continue;
      const auto* const text = reinterpret_cast<const std::uint8_t*>(slots.data() + i + 1);
      columns_[kText].insert(columns_[kText].end(), text, text + slot.aux);
      i += text_slots(slot.aux);
    }
  }

  /// The sizes of the columns, and the columns.
  std::vector<std::uint8_t> bytes() const {
    std::vector<std::uint8_t> result;
    for (const std::vector<std::uint8_t>& column : columns_)
      for (unsigned byte = 0; byte < 4; ++byte)
        result.push_back(static_cast<std::uint8_t>(column.size() >> (8 * byte)));
    for (const std::vector<std::uint8_t>& column : columns_)
      result.insert(result.end(), column.begin(), column.end());
    return result;
  }

 private:
  enum : unsigned { kHead, kTime, kAddress, kNode, kRare, kText, kCount };
  struct Fields {
    bool heap_address = false;
    bool stack = false;
    bool size = false;  ///< in kRare, as the following ones
    bool address = false;
    bool node_and_aux = false;
  };
  static Fields fields_of(Op op) {
    Fields fields;
    switch (op) {
      case Op::kAlloc:
      case Op::kFreeStack:
      case Op::kReallocEnd: fields.heap_address = fields.stack = true; break;
      case Op::kFree:
      case Op::kReallocBegin: fields.heap_address = true; break;
      case Op::kReallocFailed:
      case Op::kAllocFailed: fields.stack = fields.size = true; break;
      case Op::kMap:
      case Op::kRemapEnd:
      case Op::kBrk: fields.stack = fields.size = fields.address = true; break;
      case Op::kUnmapBegin:
      case Op::kRemapBegin:
      case Op::kSample: fields.size = fields.address = true; break;
      case Op::kNode:
      case Op::kText: fields.size = fields.address = fields.node_and_aux = true; break;
      case Op::kBlockStart: fields.address = true; break;
      default: break;
    }
    return fields;
  }
  void put(unsigned column, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) columns_[column].push_back(static_cast<std::uint8_t>(value | 0x80));
    columns_[column].push_back(static_cast<std::uint8_t>(value));
  }

  std::vector<std::uint8_t> columns_[kCount];
};

}  // namespace heapprof::test
