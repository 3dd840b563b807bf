// Snapshots of resident pages, as the analyzer reads them.
#include "analyzer/trace/residency.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "analyzer/replay/compact/compactor.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

constexpr std::uint64_t kStart = 5'000'000'000;

/// A piece of a snapshot.
struct Piece {
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(16384);
  ResidencyEncoder out{buffer.data()};
  std::string text() const { return {reinterpret_cast<const char*>(buffer.data()), out.bytes()}; }
};

Piece first_piece(std::uint64_t page_bytes = 4096) {
  Piece piece;
  piece.out.begin({SnapshotReason::kMark, SnapshotMethod::kPagemapScan, kStart + 100, 800 << 10, 4096, page_bytes});
  piece.out.mapping({0x1000, 600, kMappingReadable | kMappingWritable, 0, 0, 0, "[heap]", 6});
  piece.out.mapping({0x2000, 10, kMappingReadable | kMappingShared, 8, 77, 3, "/lib/x", 6});
  return piece;
}

Piece last_piece(bool complete = true) {
  Piece piece;
  PageGroup group;
  group.number = 0x1000 / kGroupPages;
  group.set(kPresent, 0, kGroupPages);
  group.set(kZero, 10, 12);
  piece.out.group(group);
  ++group.number;
  group = PageGroup{group.number, {}};
  group.set(kPresent, 0, 88);
  group.set(kHuge, 0, 88);
  piece.out.group(group);
  group = PageGroup{0x2000 / kGroupPages, {}};
  group.set(kSwapped, 4, 5);
  piece.out.group(group);
  piece.out.recorder(0x1000000, 0x3000);
  piece.out.stack({4242, 0x7ff0, 0x8000});
  piece.out.end({kStart + 300, 150, complete});
  return piece;
}

std::vector<ResidencySnapshot> snapshots_of(TraceBuilder& trace) {
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const TraceFile file(path.path());
  std::vector<ResidencySnapshot> result;
  for_each_snapshot(file, [&](ResidencySnapshot&& snapshot) { result.push_back(std::move(snapshot)); });
  return result;
}

}  // namespace

TEST_CASE("A snapshot has its mappings, and the state of each of their pages") {
  TraceBuilder trace;
  trace.header.start_monotonic_ns = kStart;
  auto& one = trace.stream();
  auto& two = trace.stream();
  one.alloc(10, 0x1000, 1);
  one.text(TextKind::kResidency, 1, 0, first_piece().text());
  two.alloc(20, 0x2000, 1);  // another thread continues it
  two.text(TextKind::kResidency, 1, 1, last_piece().text());
  const std::vector<ResidencySnapshot> all = snapshots_of(trace);
  REQUIRE(all.size() == 1);
  const ResidencySnapshot& snapshot = all[0];
  CHECK(snapshot.complete);
  CHECK(snapshot.number == 1);
  CHECK(snapshot.reason == SnapshotReason::kMark);
  CHECK(snapshot.begin_ns == 100);
  CHECK(snapshot.end_ns == 300);
  CHECK(snapshot.spent_ns == 150);
  CHECK(snapshot.resident_bytes == 800 << 10);
  REQUIRE(snapshot.mappings.size() == 2);
  const ResidentMapping& heap = snapshot.mappings[0];
  CHECK(heap.begin == 0x1000000);
  CHECK(heap.end == 0x1258000);
  CHECK(heap.name == "[heap]");
  CHECK(heap.writable);
  CHECK_FALSE(heap.shared);
  const ResidentMapping& library = snapshot.mappings[1];
  CHECK(library.inode == 77);
  CHECK(library.offset == 3 * 4096);
  CHECK(library.shared);
  CHECK(snapshot.recorder_ranges == std::vector<AddressRange>{{0x1000000, 0x1003000}});
  REQUIRE(snapshot.stacks.size() == 1);
  CHECK(snapshot.stacks[0].stack_pointer == 0x7ff0);

  const PageStates& pages = snapshot.pages;
  std::vector<std::string> ranges;
  const auto list = [&](std::uint64_t begin, std::uint64_t end) {
    ranges.clear();
    pages.for_each_range(begin, end, [&](const AddressRange& range, const PageState& state) {
      ranges.push_back(std::to_string(range.begin / 4096) + "-" + std::to_string(range.end / 4096) +
                       (state.present ? "p" : "") + (state.swapped ? "s" : "") + (state.zero ? "z" : "") +
                       (state.huge ? "h" : ""));
    });
    return ranges;
  };
  CHECK(list(heap.begin, heap.end) ==
        std::vector<std::string>{"4096-4106p", "4106-4108pz", "4108-4608p", "4608-4696ph"});
  CHECK(list(library.begin, library.end) == std::vector<std::string>{"8192-8196", "8196-8197s", "8197-8202"});
  CHECK(list(0, 0x4000000) == std::vector<std::string>{"0-4096", "4096-4106p", "4106-4108pz", "4108-4608p",
                                                       "4608-4696ph", "4696-8196", "8196-8197s", "8197-16384"});
  CHECK(list(0x100b000, 0x100c000) == std::vector<std::string>{"4107-4108pz"});
  CHECK(list(0x1000, 0x1000).empty());
  CHECK(pages.resident_bytes(heap.begin, heap.end) == (512 - 2 + 88) * 4096);
  CHECK(pages.at(0x100a000) == PageState{true, false, true, false});
  CHECK(pages.at(0x1200fff) == PageState{true, false, false, true});
  CHECK(pages.at(0x9000000) == PageState{});
}

TEST_CASE("A compacted trace has the same snapshots") {
  TraceBuilder trace;
  trace.header.start_monotonic_ns = kStart;
  auto& stream = trace.stream();
  stream.thread(1, "one");
  stream.alloc(10, 0x1000, 1);
  stream.text(TextKind::kResidency, 1, 0, first_piece().text());
  stream.text(TextKind::kResidency, 1, 1, last_piece().text());
  stream.alloc(20, 0x2000, 1);
  const TemporaryFile original, compacted;
  TraceBuilder::write_bytes(original.path(), trace.bytes());
  for (const bool exact : {false, true}) {
    replay::CompactOptions options;
    options.exact = exact;
    replay::compact(original.path(), compacted.path(), options);
    std::vector<ResidencySnapshot> both[2];
    for (const int which : {0, 1})
      for_each_snapshot(TraceFile((which == 0 ? original : compacted).path()),
                        [&](ResidencySnapshot&& snapshot) { both[which].push_back(std::move(snapshot)); });
    REQUIRE(both[0].size() == 1);
    REQUIRE(both[1].size() == 1);
    const ResidencySnapshot& before = both[0][0];
    const ResidencySnapshot& after = both[1][0];
    CHECK(after.complete);
    CHECK(after.begin_ns == before.begin_ns);
    CHECK(after.end_ns == before.end_ns);
    CHECK(after.recorder_ranges == before.recorder_ranges);
    REQUIRE(after.mappings.size() == before.mappings.size());
    for (std::size_t i = 0; i < after.mappings.size(); ++i) {
      const ResidentMapping& mapping = after.mappings[i];
      CHECK(mapping.begin == before.mappings[i].begin);
      CHECK(mapping.name == before.mappings[i].name);
      for (std::uint64_t page = mapping.begin; page < mapping.end; page += 4096)
        REQUIRE(after.pages.at(page) == before.pages.at(page));
    }
  }
}

TEST_CASE("A snapshot without its end, or with a missing or malformed piece, is incomplete") {
  const auto read = [](std::vector<std::pair<std::uint64_t, std::string>> pieces) {
    TraceBuilder trace;
    trace.header.start_monotonic_ns = kStart;
    auto& stream = trace.stream();
    stream.alloc(10, 0x1000, 1);
    for (const auto& [number, text] : pieces) stream.text(TextKind::kResidency, 1, number, text);
    return snapshots_of(trace);
  };
  CHECK(read({{0, first_piece().text()}, {1, last_piece().text()}}).at(0).complete);
  CHECK_FALSE(read({{0, first_piece().text()}, {1, last_piece(false).text()}}).at(0).complete);
  CHECK_FALSE(read({{0, first_piece().text()}}).at(0).complete);
  CHECK(read({{0, first_piece().text()}}).at(0).mappings.size() == 2);
  CHECK_FALSE(read({{0, first_piece().text()}, {2, last_piece().text()}}).at(0).complete);
  const std::string changed = last_piece().text().replace(0, 1, "\x20");
  CHECK_FALSE(read({{0, first_piece().text()}, {1, changed}}).at(0).complete);
  CHECK(read({{1, last_piece().text()}}).empty());
  // Numbers of pages that would overflow as addresses.
  CHECK_FALSE(read({{0, first_piece(1 << 24).text()}, {1, last_piece().text()}}).empty());
  CHECK(read({{0, first_piece(3).text()}, {1, last_piece().text()}}).empty());
}

TEST_CASE("A snapshot that was given up is followed by another one") {
  TraceBuilder trace;
  trace.header.start_monotonic_ns = kStart;
  auto& stream = trace.stream();
  stream.alloc(10, 0x1000, 1);
  stream.text(TextKind::kResidency, 1, 0, first_piece().text());
  stream.text(TextKind::kResidency, 2, 0, first_piece().text() + last_piece().text());
  stream.text(TextKind::kResidency, 3, 0, first_piece().text());
  stream.text(TextKind::kResidency, 3, 1, last_piece().text());
  const std::vector<ResidencySnapshot> all = snapshots_of(trace);
  REQUIRE(all.size() == 3);
  CHECK_FALSE(all[0].complete);
  CHECK(all[1].complete);
  CHECK(all[2].complete);
  for (std::uint64_t i = 0; i < 3; ++i) CHECK(all[i].number == i + 1);
}

TEST_CASE("A snapshot takes no more memory than a file of its size can hold") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(10, 0x1000, 1);
  // Mappings of ten bytes, which compress to nearly nothing.
  std::uint64_t mappings = 0;
  for (std::uint64_t number = 0; number < 3000; ++number) {
    Piece piece;
    if (number == 0) piece.out.begin({SnapshotReason::kMark, SnapshotMethod::kPagemapScan, kStart, 0, 0, 4096});
    for (int i = 0; i < 200; ++i) piece.out.mapping({1 + mappings++, 1, 0, 0, 0, 0, "", 0});
    stream.text(TextKind::kResidency, 1, number, piece.text());
  }
  const std::vector<ResidencySnapshot> all = snapshots_of(trace);
  REQUIRE(all.size() == 1);
  CHECK_FALSE(all[0].complete);
  const std::uint64_t kept = all[0].mappings.size();
  CHECK(kept > 10'000);
  CHECK(kept < mappings);
}
