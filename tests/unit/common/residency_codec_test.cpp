// Encoder and decoder of snapshots of resident pages.
#include "common/residency_codec.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/require_each.h"

using namespace heapprof;
using heapprof::test::require_each;

namespace {

struct Items {
  std::vector<std::string> seen;
  std::vector<PageGroup> groups;
  bool begin(const ResidencyBegin& item) {
    seen.push_back("begin " + std::to_string(static_cast<unsigned>(item.reason)) + " " +
                   std::to_string(item.resident_bytes) + " " + std::to_string(item.page_bytes));
    return true;
  }
  bool mapping(const ResidencyMapping& item) {
    seen.push_back("mapping " + std::to_string(item.first_page) + " " + std::to_string(item.pages) + " " +
                   std::to_string(item.flags) + " " + std::to_string(item.inode) + " " +
                   std::string(item.name, item.name_bytes));
    return true;
  }
  bool group(const PageGroup& item) {
    groups.push_back(item);
    return true;
  }
  bool recorder(std::uint64_t address, std::uint64_t bytes) {
    seen.push_back("recorder " + std::to_string(address) + " " + std::to_string(bytes));
    return true;
  }
  bool stack(const ResidencyStack& item) {
    seen.push_back("stack " + std::to_string(item.thread) + " " + std::to_string(item.stack_pointer) + " " +
                   std::to_string(item.end));
    return true;
  }
  bool end(const ResidencyEnd& item) {
    seen.push_back("end " + std::to_string(item.spent_ns) + (item.complete ? " complete" : " incomplete"));
    return true;
  }
};

struct Piece {
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(16384);
  ResidencyEncoder out{buffer.data()};
  bool decode(Items& items) const { return decode_residency(buffer.data(), out.bytes(), items); }
};

bool has(const PageGroup& group, unsigned plane, unsigned page) {
  return (group.planes[plane][page / 64] >> page % 64 & 1) != 0;
}

}  // namespace

TEST_CASE("Items are decoded as they were encoded") {
  Piece piece;
  piece.out.begin({SnapshotReason::kExit, SnapshotMethod::kPagemapScan, 17, 4096 * 99, 4096, 4096});
  piece.out.mapping({0x400, 16, kMappingReadable | kMappingExecutable, 8, 1234, 2, "/bin/x y", 8});
  piece.out.mapping({0x7fffffff0, 3, kMappingReadable, 0, 0, 0, "", 0});
  piece.out.recorder(0x7000, 0x2000);
  piece.out.stack({77, 0x8010, 0x9000});
  piece.out.end({20, 3, true});
  Items items;
  CHECK(piece.decode(items));
  CHECK(items.seen == std::vector<std::string>{"begin 3 405504 4096", "mapping 1024 16 5 1234 /bin/x y",
                                               "mapping 34359738352 3 1 0 ", "recorder 28672 8192",
                                               "stack 77 32784 36864", "end 3 complete"});
}

TEST_CASE("The planes of a group are empty, full or bits") {
  PageGroup group;
  group.number = 5;
  group.set(kPresent, 0, kGroupPages);
  group.set(kSwapped, 63, 65);
  group.set(kHuge, 511, 512);
  PageGroup later = group;
  later.number = 1'000'000;
  Piece piece;
  piece.out.group(group);
  CHECK(piece.out.bytes() == 1 + 1 + 2 + 2 * kPlaneBytes);
  piece.out.group(later);
  Items items;
  REQUIRE(piece.decode(items));
  REQUIRE(items.groups.size() == 2);
  CHECK(items.groups[0].number == 5);
  CHECK(items.groups[1].number == 1'000'000);
  for (const PageGroup& one : items.groups) {
    for (unsigned page = 0; page < kGroupPages; ++page) {
      require_each(has(one, kPresent, page));
      require_each(has(one, kSwapped, page) == (page == 63 || page == 64));
      require_each(!has(one, kZero, page));
      require_each(has(one, kHuge, page) == (page == 511));
    }
  }
}

TEST_CASE("Ranges of bits of every length and position are set, and no others") {
  for (std::uint32_t first = 0; first < 130; ++first)
    for (std::uint32_t last = first + 1; last <= 200; ++last) {
      PageGroup group;
      group.set(kZero, first, last);
      for (std::uint32_t page = 0; page < kGroupPages; ++page)
        if (has(group, kZero, page) != (page >= first && page < last)) FAIL(first << " to " << last << ": " << page);
    }
}

TEST_CASE("A name is truncated to the limit") {
  const std::string name(kMaxMappingNameBytes + 100, 'n');
  Piece piece;
  piece.out.mapping({1, 1, 0, 0, 0, 0, name.data(), name.size()});
  CHECK(piece.out.bytes() <= kMaxResidencyItemBytes);
  Items items;
  REQUIRE(piece.decode(items));
  CHECK(items.seen[0] == "mapping 1 1 0 0 " + name.substr(0, kMaxMappingNameBytes));
}

TEST_CASE("Every truncation and every changed byte of a piece is decoded without a read beyond its end") {
  Piece piece;
  piece.out.begin({SnapshotReason::kMark, SnapshotMethod::kMincore, 1, 2, 3, 4096});
  piece.out.mapping({0x400, 16, 5, 8, 1234, 2, "name", 4});
  PageGroup group;
  group.number = 3;
  group.set(kPresent, 1, 100);
  piece.out.group(group);
  piece.out.recorder(1, 2);
  piece.out.stack({1, 2, 3});
  piece.out.end({1, 2, true});
  const std::size_t bytes = piece.out.bytes();
  for (std::size_t kept = 0; kept < bytes; ++kept) {
    const std::vector<std::uint8_t> part(piece.buffer.begin(),
                                         piece.buffer.begin() + static_cast<std::ptrdiff_t>(kept));
    Items items;
    decode_residency(part.data(), part.size(), items);
  }
  std::vector<std::uint8_t> changed(piece.buffer.begin(), piece.buffer.begin() + static_cast<std::ptrdiff_t>(bytes));
  for (std::uint8_t& byte : changed) {
    const std::uint8_t before = byte;
    for (unsigned value = 0; value < 256; ++value) {
      byte = static_cast<std::uint8_t>(value);
      Items items;
      decode_residency(changed.data(), changed.size(), items);
    }
    byte = before;
  }
}

TEST_CASE("Malformed pieces are refused") {
  const auto refused = [](std::vector<std::uint8_t> bytes) {
    Items items;
    return !decode_residency(bytes.data(), bytes.size(), items);
  };
  CHECK(refused({0}));
  CHECK(refused({9}));
  CHECK(refused({3, 1, 3}));           // a plane of an unknown layout
  CHECK(refused({3, 1, 0x80, 0x02}));  // more planes than there are
  CHECK(refused({3, 1, 1, 3, 0, 1}));  // the same group twice
  CHECK(refused({3, 1, 2, 0, 0}));     // bits beyond the end
  CHECK(refused({6, 1, 1, 2}));
  CHECK_FALSE(refused({3, 1, 1, 3, 1, 1}));
  // A mapping that ends beyond the last address.
  CHECK(refused({2, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0}));
}
