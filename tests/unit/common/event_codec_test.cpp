#include "common/event_codec.h"
#include "tests/support/seed.h"

#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <vector>

using namespace heapprof;

namespace {

struct Record {
  Slot slot;
  std::string text;
  bool operator==(const Record& other) const {
    return slot.time == other.slot.time && slot.address == other.slot.address && slot.op_size == other.slot.op_size &&
           slot.node == other.slot.node && slot.aux == other.slot.aux && text == other.text;
  }
};

void append(std::vector<Slot>& slots, const Slot& slot, const std::string& text = {}) {
  slots.push_back(slot);
  if (slot.op() != Op::kText) return;
  slots.back().aux = static_cast<std::uint32_t>(text.size());
  const std::size_t at = slots.size();
  slots.resize(at + text_slots(slots[at - 1].aux));
  std::memcpy(static_cast<void*>(slots.data() + at), text.data(), text.size());
}

/// A random record with the fields of its op.
Record random_record(std::mt19937_64& random, std::uint64_t& time) {
  const Op op = static_cast<Op>(1 + random() % static_cast<unsigned>(Op::kLast));
  const OpFields fields = fields_of(op);
  Record record{};
  time += random() % 3 == 0 ? random() >> (random() % 64) >> 8 : 0;
  record.slot.time = time;
  const bool has_size = fields.size || op == Op::kAlloc || op == Op::kReallocEnd;
  record.slot.op_size = op_size(op, has_size ? random() >> (random() % 57) & kMaxSize : 0);
  if (fields.heap_address || fields.address) record.slot.address = random() >> random() % 64;
  if (fields.stack || fields.node) record.slot.node = static_cast<std::uint32_t>(random() >> random() % 64);
  if (fields.aux) record.slot.aux = static_cast<std::uint32_t>(random() >> random() % 64);
  if (op == Op::kText) {
    record.text.resize(random() % 100);
    for (char& c : record.text) c = static_cast<char>(random());
    record.slot.aux = static_cast<std::uint32_t>(record.text.size());
  }
  return record;
}

std::vector<Record> decode_all(const std::vector<std::uint8_t>& bytes, const EncodedBlock& block,
                               DecodeError& error) {
  std::vector<Record> records;
  error = decode_columns(bytes.data(), block.raw_bytes, block.first_time, block.record_count,
                         [&](const Slot& slot, const std::uint8_t* text) {
                           records.push_back({slot, {}});
                           if (text != nullptr)
                             records.back().text.assign(reinterpret_cast<const char*>(text), slot.aux);
                         });
  return records;
}

}  // namespace

TEST_CASE("decoding returns every op as it was encoded") {
  std::mt19937_64 random(heapprof::test::seed(1));
  for (int round = 0; round < 200; ++round) {
    std::vector<Record> records;
    std::vector<Slot> slots;
    std::uint64_t time = random() >> 20;
    for (unsigned i = 0, n = random() % 300; i < n; ++i) {
      records.push_back(random_record(random, time));
      append(slots, records.back().slot, records.back().text);
    }
    std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()));
    const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), bytes.data());
    REQUIRE(block.raw_bytes <= bytes.size());
    REQUIRE(block.record_count == records.size());
    if (!records.empty()) {
      CHECK(block.first_time == records.front().slot.time);
      CHECK(block.last_time == records.back().slot.time);
    }
    std::uint32_t events = 0;
    for (const Record& record : records) events += is_event(record.slot);
    CHECK(block.event_count == events);
    DecodeError error;
    const std::vector<Record> decoded = decode_all(bytes, block, error);
    REQUIRE(decoded.size() == records.size());
    for (std::size_t i = 0; i < records.size(); ++i) {
      INFO("record " << i << " of op " << static_cast<int>(records[i].slot.op()));
      REQUIRE(decoded[i] == records[i]);
    }
    CHECK(error == DecodeError::kNone);
  }
}

TEST_CASE("a malloc and a free take few bytes") {
  std::vector<Slot> slots;
  for (unsigned i = 0; i < 1000; ++i) {
    slots.push_back({5, 0x55550000, op_size(Op::kAlloc, 24), 7, 0});
    slots.push_back({5, 0x55550000, op_size(Op::kFree, 0), 0, 0});
  }
  std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()));
  const EncodedBlock block = encode_columns(slots.data(), 2000, bytes.data());
  // Two heads, two times, two address deltas, one stack: seven bytes for each pair, and the first address.
  CHECK(block.raw_bytes <= kColumns * 4 + 7 * 1000 + 8);
}

TEST_CASE("overwritten slots stay within the bound") {
  std::mt19937_64 random(heapprof::test::seed(2));
  for (int round = 0; round < 200; ++round) {
    std::vector<Slot> slots(100);
    for (Slot& slot : slots)
      slot = {random(), random(), random(), static_cast<std::uint32_t>(random()),
              static_cast<std::uint32_t>(random())};
    for (unsigned i = 0; i < 20; ++i) slots[random() % 100].op_size = op_size(Op::kText, 3);
    std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()) + 16, 0xee);
    const EncodedBlock block = encode_columns(slots.data(), 100, bytes.data());
    REQUIRE(block.raw_bytes <= column_bytes_bound(slots.size()));
    for (std::size_t i = bytes.size() - 16; i < bytes.size(); ++i) REQUIRE(bytes[i] == 0xee);
  }
}

TEST_CASE("damaged columns give an error or some records, and no read out of bounds") {
  std::mt19937_64 random(heapprof::test::seed(3));
  std::vector<Slot> slots;
  std::uint64_t time = 0;
  for (unsigned i = 0; i < 50; ++i) {
    const Record record = random_record(random, time);
    append(slots, record.slot, record.text);
  }
  std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()));
  const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), bytes.data());
  const std::vector<std::uint8_t> good(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(block.raw_bytes));
  const auto ignore = [](const Slot&, const std::uint8_t*) {};
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    const std::vector<std::uint8_t> part(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(cut));
    CHECK(decode_columns(part.data(), part.size(), 0, block.record_count, ignore) != DecodeError::kNone);
  }
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint8_t> bad = good;
    bad[random() % bad.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    decode_columns(bad.data(), bad.size(), 0, block.record_count, ignore);
  }
  CHECK(decode_columns(good.data(), good.size(), 0, block.record_count - 1, ignore) == DecodeError::kTrailing);
  CHECK(decode_columns(good.data(), good.size(), 0, block.record_count + 1, ignore) == DecodeError::kBadVarint);
}
