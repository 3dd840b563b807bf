#include "common/event_codec.h"
#include "tests/support/old_columns.h"
#include "tests/support/require_each.h"
#include "tests/support/seed.h"

#include <catch2/catch.hpp>

#include <random>
#include <string>
#include <utility>
#include <vector>

using namespace heapprof;
using heapprof::test::require_each;

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

std::vector<Record> decode_all(const std::vector<std::uint8_t>& bytes, const EncodedBlock& block, DecodeError& error,
                               ColumnFormat format = ColumnFormat::kCurrent) {
  std::vector<Record> records;
  error = decode_columns(format, bytes.data(), block.raw_bytes, block.first_time, block.record_count,
                         [&](const Slot& slot, const std::uint8_t* text) {
                           records.push_back({slot, {}});
                           if (text != nullptr)
                             records.back().text.assign(reinterpret_cast<const char*>(text), slot.aux);
                         });
  return records;
}

/// Whether decoding `bytes` gives `slots`, which have no texts.
bool is_decoded(const std::vector<std::uint8_t>& bytes, const EncodedBlock& block, const std::vector<Slot>& slots) {
  DecodeError error;
  const std::vector<Record> decoded = decode_all(bytes, block, error);
  if (error != DecodeError::kNone || decoded.size() != slots.size()) return false;
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (!(decoded[i] == Record{slots[i], {}})) return false;
  return true;
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
    for (std::size_t i = 0; i < records.size(); ++i)
      if (!(decoded[i] == records[i])) FAIL("record " << i << " of op " << static_cast<int>(records[i].slot.op()));
    CHECK(error == DecodeError::kNone);

    // And as version 1 had it.
    const std::vector<std::uint8_t> old = heapprof::test::OldColumns(slots).bytes();
    EncodedBlock old_block = block;
    old_block.raw_bytes = old.size();
    CHECK((decode_all(old, old_block, error, ColumnFormat::kOld) == records));
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
  // Two heads, two address deltas, one stack: five bytes for each pair; the first address, and a run of one time.
  CHECK(block.raw_bytes <= kColumns * 4 + 5 * 1000 + 11);
}

TEST_CASE("a node of a new stack takes a head and an offset") {
  // Stacks of ten new frames, each of which begins at a node of the stack before.
  constexpr std::uint32_t kStacks = 20, kFrames = 10;
  std::vector<Slot> slots;
  std::uint32_t node = 1'000'000;
  for (std::uint32_t stack = 0; stack < kStacks; ++stack) {
    std::uint32_t parent = node - 7;
    for (std::uint32_t frame = 0; frame < kFrames; ++frame) {
      slots.push_back(
          {5, 0x12345 + stack * 977 + frame * 131, op_size(Op::kNode, parent | std::uint64_t{2} << 32), ++node, 0});
      parent = node;
    }
  }
  std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()));
  const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), bytes.data());
  CHECK(block.node_count == slots.size());
  CHECK(is_decoded(bytes, block, slots));
  // Head, and an offset of three bytes; the parent of a stack's first node; number and module of the first one; the
  // run of times.
  CHECK(block.raw_bytes <= kColumns * 4 + 4 * slots.size() + kStacks + 4 + 3);
}

TEST_CASE("nodes of every kind are decoded as they were encoded") {
  const auto node = [](std::uint32_t number, std::uint32_t parent, std::uint32_t module, std::uint64_t offset,
                       std::uint32_t aux) {
    return Slot{5, offset, op_size(Op::kNode, parent | std::uint64_t{module} << 32), number, aux};
  };
  const std::vector<Slot> slots = {
      node(1, 0, 0, 7, 0),  // the first node of a frame, of which everything may be left out
      node(2, 1, 2, 0x1000, 1),
      node(3, 2, 2, 0x1000, 0),  // the module of the last node, another aux
      node(3, 3, 2, 0x1000, 1),  // the same number again, its own parent
      node(1, 3, 65535, ~std::uint64_t{0}, 0),
      node(~0u, ~0u, 0xffffff, 0, 1),
      node(0, ~0u, 0xffffff, 5, 0),  // one above the last, modulo 2^32
      node(4, 0, 7, 0x10, 2),        // in full: an aux that no recorder writes
      node(5, 0, 0xffffff, 0x20, 0),
  };
  std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()));
  const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), bytes.data());
  CHECK(block.node_count == slots.size() - 1);
  CHECK(is_decoded(bytes, block, slots));
  // Recordings of version 1 have no such heads.
  CHECK(decode_columns(ColumnFormat::kOld, bytes.data(), block.raw_bytes, block.first_time, block.record_count,
                       [](const Slot&, const std::uint8_t*) {}) == DecodeError::kBadOp);
}

TEST_CASE("stacks near each other take one byte each, whatever their numbers are") {
  std::vector<Slot> slots;
  for (const std::uint32_t first : {400'000u, ~0u - 10, 0u})
    for (std::uint32_t i = 0; i < 1000; ++i)
      slots.push_back({5, 0x55550000, op_size(Op::kAlloc, 24), first + i * 37 % 10, 0});
  slots.push_back({5, 0, op_size(Op::kAllocFailed, 24), ~0u, 0});
  slots.push_back({5, 0x55550000, op_size(Op::kFreeStack, 0), 1, 0});
  std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()));
  const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), bytes.data());
  CHECK(is_decoded(bytes, block, slots));
  CHECK(block.raw_bytes <= kColumns * 4 + 3 * slots.size() + 60);
}

TEST_CASE("times are decoded as they were encoded, and runs of one time take a few bytes") {
  std::vector<Slot> slots;
  std::uint64_t time = 1'000'000;
  const auto add = [&](std::uint64_t ticks, std::uint32_t count) {
    time += ticks;
    for (std::uint32_t i = 0; i < count; ++i) slots.push_back({time, 0x10, op_size(Op::kFree, 0), 0, 0});
  };
  for (const std::uint32_t count : {1u, 2u, 3u, 32u, 129u, 130u, 1u, 20'000u, 1u}) add(5000, count);
  for (unsigned i = 0; i < 100; ++i) add(i % 2, 1);
  add(~std::uint64_t{0} >> 1, 2);
  std::vector<std::uint8_t> bytes(column_bytes_bound(slots.size()));
  const EncodedBlock block = encode_columns(slots.data(), static_cast<std::uint32_t>(slots.size()), bytes.data());
  CHECK(block.first_time == 1'005'000);
  CHECK(block.last_time == time);
  CHECK(is_decoded(bytes, block, slots));
  // A head and an address difference for each record.
  CHECK(block.raw_bytes <= kColumns * 4 + 2 * slots.size() + 9 * 4 + 100 + 20);
  // Of two records; the runs of some are longer than that, or too short.
  const auto decode = [](std::vector<std::uint8_t> times) {
    std::vector<std::uint8_t> columns = {2, 0, 0, 0, static_cast<std::uint8_t>(times.size()), 0, 0, 0, 2};
    columns.resize(kColumns * 4 + 2, 0);
    columns.insert(columns.end(), times.begin(), times.end());
    columns.resize(columns.size() + 2, 0);
    std::vector<std::uint64_t> decoded;
    const DecodeError error =
        decode_columns(ColumnFormat::kCurrent, columns.data(), columns.size(), 7, 2,
                       [&](const Slot& slot, const std::uint8_t*) { decoded.push_back(slot.time); });
    return std::pair(error, decoded);
  };
  using Times = std::vector<std::uint64_t>;
  CHECK((decode({3}) == std::pair(DecodeError::kNone, Times{7, 7})));
  CHECK((decode({1, 1}) == std::pair(DecodeError::kNone, Times{7, 7})));
  CHECK((decode({1, 8}) == std::pair(DecodeError::kNone, Times{7, 11})));
  CHECK((decode({6, 8}) == std::pair(DecodeError::kNone, Times{10, 14})));
  CHECK((decode({6, 1}) == std::pair(DecodeError::kNone, Times{10, 10})));
  CHECK((decode({0, 0}) == std::pair(DecodeError::kNone, Times{7, 7})));  // as no recorder writes it
  CHECK((decode({5}) == std::pair(DecodeError::kTrailing, Times{7, 7})));
  CHECK((decode({6, 3}) == std::pair(DecodeError::kTrailing, Times{10, 10})));
  CHECK((decode({3, 1}) == std::pair(DecodeError::kTrailing, Times{7, 7})));
  CHECK((decode({1}) == std::pair(DecodeError::kBadVarint, Times{7})));
  CHECK((decode({}) == std::pair(DecodeError::kBadVarint, Times{})));
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
    for (std::size_t i = bytes.size() - 16; i < bytes.size(); ++i) require_each(bytes[i] == 0xee);
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
    CHECK(decode_columns(ColumnFormat::kCurrent, part.data(), part.size(), 0, block.record_count, ignore) !=
          DecodeError::kNone);
  }
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::uint8_t> bad = good;
    bad[random() % bad.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    for (const ColumnFormat format : {ColumnFormat::kCurrent, ColumnFormat::kOld})
      decode_columns(format, bad.data(), bad.size(), 0, block.record_count, ignore);
  }
  const auto decode = [&](std::uint32_t count) {
    return decode_columns(ColumnFormat::kCurrent, good.data(), good.size(), 0, count, ignore);
  };
  CHECK(decode(block.record_count - 1) == DecodeError::kTrailing);
  CHECK(decode(block.record_count + 1) == DecodeError::kBadVarint);
}
