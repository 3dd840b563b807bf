// Tables of pinned memory: reading returns what was written, and what no writer writes is refused.
#include "analyzer/trace/compact/pinned_table.h"

#include <catch2/catch.hpp>

using namespace heapprof::trace;

namespace {

constexpr std::uint32_t kNodes = 10;
constexpr std::uint64_t kPayload = 1'000;

PinnedTable example() {
  PinnedTable table;
  table.allocator = "jemalloc";
  table.note = "a note";
  table.returnable_bytes = 3 * kPinnedPageBytes;
  table.stacks = {{0, 100, 112, 1}, {4, 1'000, 1'024, 20}, {9, 0, 8, 1}};
  table.members = {0, 1, 0, 2, 1};
  table.sets = {{5, 0, 2}, {1, 2, 2}, {70'000, 4, 1}};
  return table;
}

PinnedTable read(const PinnedTable& table, std::uint32_t nodes = kNodes, std::size_t cut = 0) {
  ByteWriter out;
  save(table, out);
  ByteReader in(out.bytes().first(out.size() - cut));
  return load_pinned_table(in, nodes, kPayload);
}

}  // namespace

TEST_CASE("Reading a table of pinned memory returns what was written") {
  const PinnedTable was = example();
  const PinnedTable is = read(was);
  CHECK(is.allocator == was.allocator);
  CHECK(is.note == was.note);
  CHECK(is.returnable_bytes == was.returnable_bytes);
  REQUIRE(is.stacks.size() == was.stacks.size());
  for (std::size_t i = 0; i < is.stacks.size(); ++i) {
    CHECK(is.stacks[i].node == was.stacks[i].node);
    CHECK(is.stacks[i].requested_bytes == was.stacks[i].requested_bytes);
    CHECK(is.stacks[i].usable_bytes == was.stacks[i].usable_bytes);
    CHECK(is.stacks[i].blocks == was.stacks[i].blocks);
  }
  CHECK(is.members == was.members);
  REQUIRE(is.sets.size() == was.sets.size());
  for (std::size_t i = 0; i < is.sets.size(); ++i) {
    CHECK(is.sets[i].pages == was.sets[i].pages);
    CHECK(is.sets[i].first == was.sets[i].first);
    CHECK(is.sets[i].count == was.sets[i].count);
  }
  CHECK(read({}).sets.empty());
}

TEST_CASE("A malformed table of pinned memory is refused") {
  PinnedTable table = example();
  SECTION("truncated") { CHECK_THROWS_AS(read(table, kNodes, 1), FormatError); }
  SECTION("a stack that the trace does not have") { CHECK_THROWS_AS(read(table, 9), FormatError); }
  SECTION("stacks twice") {
    table.stacks[1].node = 0;
    CHECK_THROWS_AS(read(table), FormatError);
  }
  SECTION("members twice") {
    table.members[1] = 0;
    CHECK_THROWS_AS(read(table), FormatError);
  }
  SECTION("a member that is no stack") {
    table.members[4] = 3;
    CHECK_THROWS_AS(read(table), FormatError);
  }
  SECTION("an empty set") {
    table.sets[2].count = 0;
    CHECK_THROWS_AS(read(table), FormatError);
  }
  SECTION("more than the address space") {
    table.sets[0].pages = table.sets[2].pages = std::uint64_t{1} << 44;
    table.sets[1].pages = 0;
    CHECK(read(table).sets[2].pages == std::uint64_t{1} << 44);
    table.sets[1].pages = 1;
    CHECK_THROWS_AS(read(table), FormatError);
  }
  SECTION("sums of bytes that overflow") {
    table.stacks[0].usable_bytes = table.stacks[1].usable_bytes = std::uint64_t{1} << 57;
    CHECK_THROWS_AS(read(table), FormatError);
  }
}

TEST_CASE("A table of pinned memory with more sets than its payload can hold is refused") {
  PinnedTable table = example();
  table.members.assign(1, 0);
  table.sets.assign(max_pinned_sets(kPayload), {0, 0, 1});
  CHECK(read(table).sets.size() == max_pinned_sets(kPayload));
  table.sets.push_back({0, 0, 1});
  CHECK_THROWS_WITH(read(table), "it has more sets of stacks than the limit");
}
