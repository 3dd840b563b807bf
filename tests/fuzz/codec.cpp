// Arbitrary columns of both formats are either rejected or decoded without exceeding their bounds; decoded records
// are the same after another encoding. Arbitrary slots are encoded without exceeding the bound.
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "common/event_codec.h"
#include "tests/fuzz/input.h"

namespace {

using namespace heapprof;

void decode(ColumnFormat format, fuzz::Input input) {
  const auto first_time = input.take<std::uint64_t>();
  const auto records = input.take<std::uint16_t>();
  // A copy of exactly this size, so that the sanitizer detects a read after it.
  const std::unique_ptr<std::uint8_t[]> exact(new std::uint8_t[input.left()]);
  std::copy(input.data(), input.data() + input.left(), exact.get());
  std::vector<Slot> slots;
  const DecodeError error = decode_columns(
      format, exact.get(), input.left(), first_time, records, [&](const Slot& slot, const std::uint8_t* text) {
        slots.push_back(slot);
        if (slot.op() == Op::kText) {
          const std::size_t at = slots.size();
          slots.resize(at + text_slots(slot.aux));
          if (text != nullptr && slot.aux != 0)
            std::memcpy(reinterpret_cast<char*>(slots.data() + at), text, slot.aux);
        }
      });
  if (error != DecodeError::kNone) return;
  // Times that decrease are not encoded (Column::kTime).
  std::uint64_t last_time = slots.empty() ? 0 : slots.front().time;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::uint64_t ticks = slots[i].time - std::exchange(last_time, slots[i].time);
    if (ticks >> 63 != 0) return;
    if (slots[i].op() == Op::kText) i += text_slots(slots[i].aux);
  }
  // Valid columns: encoding and decoding again gives the same records.
  std::vector<std::uint8_t> columns(column_bytes_bound(slots.size()));
  const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), columns.data());
  std::size_t at = 0;
  const DecodeError again = decode_columns(ColumnFormat::kCurrent, columns.data(), block.raw_bytes, block.first_time,
                                           block.record_count, [&](const Slot& slot, const std::uint8_t*) {
                                             if (slot.time != slots[at].time || slot.address != slots[at].address ||
                                                 slot.op_size != slots[at].op_size || slot.node != slots[at].node ||
                                                 slot.aux != slots[at].aux)
                                               std::abort();
                                             at += slot.op() == Op::kText ? 1 + text_slots(slot.aux) : 1;
                                           });
  if (again != DecodeError::kNone || at != slots.size()) std::abort();
}

void encode(fuzz::Input input) {
  std::vector<Slot> slots(input.left() / sizeof(Slot));
  if (slots.empty()) return;
  std::memcpy(slots.data(), input.data(), slots.size() * sizeof(Slot));
  const std::size_t bound = column_bytes_bound(slots.size());
  const std::unique_ptr<std::uint8_t[]> columns(new std::uint8_t[bound]);
  const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), columns.get());
  if (block.raw_bytes > bound) std::abort();
  decode_columns(ColumnFormat::kCurrent, columns.get(), block.raw_bytes, block.first_time, block.record_count,
                 [](const Slot&, const std::uint8_t*) {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto how = input.take<std::uint8_t>();
  if ((how & 1) != 0) encode(input);
  else decode((how & 2) != 0 ? ColumnFormat::kCurrent : ColumnFormat::kOld, input);
  return 0;
}
