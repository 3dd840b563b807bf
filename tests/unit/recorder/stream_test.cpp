// A stream, without hooks: its events are read back from the bytes of the file.
#include "preload/recorder/trace/stream.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/trace_header.h"
#include "preload/recorder/trace/trace_storage.h"
#include "tests/support/require_each.h"
#include "tests/support/seed.h"
#include "tests/unit/recorder/read_back.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

std::vector<FrameHeader> frames_of(const std::string& path) {
  std::vector<FrameHeader> result;
  const std::vector<char> bytes = bytes_of(path);
  for (std::size_t at = 0; at + sizeof(FrameHeader) <= bytes.size(); at += 8) {
    FrameHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    if (header.magic == kFrameMagic && header.header_checksum == header_checksum(header)) result.push_back(header);
  }
  return result;
}

}  // namespace

TEST_CASE("The events of a stream are in the file at every moment, across blocks") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  file.publish_header();
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 4096) == nullptr);
  constexpr unsigned kEvents = 20'000;
  for (unsigned i = 0; i < kEvents; ++i) {
    require_each(stream.append(Op::kAlloc, Ticks{i}, 16 * (i * 7919u % 1000u), i, i % 50, 0));
    // The file is read while it is written: after each event around the first change of blocks, later at intervals.
    if (i < 300 || i % 4999 == 0) {
      unsigned events = 0;
      for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) events += slot.op() == Op::kAlloc;
      REQUIRE(events == i + 1);
    }
  }
  const Read read = read_stream(folder / "t", StreamId{1});
  CHECK(read.frames > 100);
  std::uint64_t expected = 0;
  for (const Slot& slot : read.records) {
    if (slot.op() == Op::kBlockStart) {
      require_each(slot.address == expected);
      continue;
    }
    require_each(slot.time == expected);
    require_each(slot.size() == expected);
    require_each(slot.address == 16 * (expected * 7919u % 1000u));
    require_each(slot.node == expected % 50);
    ++expected;
  }
  CHECK(expected == kEvents);
}

TEST_CASE("A frame whose nodes repeat each other is made longer, because readers require bytes for each") {
  const bool recursion = GENERATE(true, false);
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 65536) == nullptr);
  constexpr std::uint32_t kNodes = 10'000, kInBlock = 2045;
  const auto offset_of = [&](std::uint32_t i) { return recursion ? 0x1234 : i * 7919ull * 7919ull % 9'999'991; };
  for (std::uint32_t i = 1; i <= kNodes; ++i)
    require_each(stream.define_node(NodeId{i}, NodeId{i - 1}, ModuleId{2}, offset_of(i), 0));
  std::uint32_t next = 1;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) {
    if (slot.op() != Op::kNode) continue;
    require_each(slot.node == next);
    require_each(slot.size() == ((next - 1) | std::uint64_t{2} << 32));
    require_each(slot.address == offset_of(next));
    ++next;
  }
  CHECK(next == kNodes + 1);
  const std::vector<FrameHeader> frames = frames_of(folder / "t");
  CHECK(frames.size() == kNodes / kInBlock);
  for (const FrameHeader& header : frames) {
    const std::uint32_t frame_bytes = header.header_bytes + header.payload_bytes;
    if (recursion) CHECK(frame_bytes == kMinNodeBytes * kInBlock);
    else CHECK((header.header_bytes == sizeof header && frame_bytes > kMinNodeBytes * kInBlock));
  }
}

TEST_CASE("Times in a stream never decrease") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 4096) == nullptr);
  for (std::uint64_t time : {5u, 9u, 7u, 10u}) stream.append(Op::kFree, Ticks{time}, 16, 0, 0, 0);
  std::vector<std::uint64_t> times;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) times.push_back(slot.time);
  CHECK(times == std::vector<std::uint64_t>{0, 5, 9, 9, 10});
}

TEST_CASE("A stream that reaches the size limit reports it and keeps its events") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 4096 + 65536 + 65536) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 65536) == nullptr);
  std::uint64_t state = heapprof::test::seed(1);
  unsigned committed = 0;
  const auto random = [&] { return state = state * 6364136223846793005 + 1442695040888963407; };
  while (stream.append(Op::kAlloc, Ticks{committed}, random() >> 20, random() >> 50,
                       static_cast<std::uint32_t>(random() >> 40), 0))
    ++committed;
  CHECK(std::string(stream.failure()) == "HEAPPROF_MAX_FILE_SIZE is reached");
  unsigned events = 0;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) events += slot.op() == Op::kAlloc;
  CHECK(events == committed);
  CHECK(std::filesystem::file_size(folder / "t") == 4096 + 65536 + 65536);
}

TEST_CASE("Extents grow with their stream, so that little space is left over, and have space for every frame") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 65536) == nullptr);
  std::uint64_t state = heapprof::test::seed(1);
  const auto random = [&] { return state = state * 6364136223846793005 + 1442695040888963407; };
  // Texts of which LZ4 saves nothing fill the first block: its frame needs more than the smallest extent.
  for (const std::size_t bytes : {kMaxTextBytes, kMaxTextBytes, kMaxTextBytes, 505u * 32u}) {
    std::string text(bytes, '\0');
    for (char& byte : text) byte = static_cast<char>(random() >> 56);
    REQUIRE(stream.append_text(TextKind::kMark, 0, 0, text.data(), text.size()));
  }
  REQUIRE(stream.sequence() == 0);
  constexpr unsigned kEvents = 250'000;
  for (unsigned i = 0; i < kEvents; ++i)
    require_each(stream.append(Op::kAlloc, Ticks{i}, random() >> 20, random() >> 50,
                               static_cast<std::uint32_t>(random() >> 40), 0));
  constexpr std::uint64_t kMin = 64u << 10, kMax = 256u << 10;
  std::vector<std::uint64_t> sizes;
  const std::vector<char> bytes = bytes_of(folder / "t");
  for (std::size_t at = kUnitBytes; at < bytes.size();) {
    ExtentHeader extent;
    std::memcpy(&extent, bytes.data() + at, sizeof extent);
    if (extent.kind == ExtentKind::kFrames) sizes.push_back(extent.bytes);
    at += extent.bytes;
  }
  REQUIRE(sizes.size() > 10);
  CHECK(sizes.front() == 2 * kMin);
  CHECK(sizes[1] == kMin);
  CHECK(sizes.back() == kMax);
  std::uint64_t sum = sizes.front();
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    CHECK(sizes[i] <= std::max(kMin, sum / 8));
    CHECK(sizes[i] + kMin > std::min(kMax, sum / 8));
    sum += sizes[i];
  }
  unsigned events = 0;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) events += slot.op() == Op::kAlloc;
  CHECK(events == kEvents);
}

TEST_CASE("A new block begins with its block start committed") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 4096) == nullptr);
  const auto commit = [&] {
    std::uint64_t word;
    std::memcpy(&word, bytes_of(folder / "t").data() + 4096 + offsetof(StagingHeader, commit), sizeof word);
    return word;
  };
  CHECK(commit() == commit_word(0, 1));
  while (stream.sequence() == 0) REQUIRE(stream.append(Op::kAlloc, Ticks{1}, 16, 1, 1, 0));
  CHECK(commit() == commit_word(1, 2));  // the block start, and the event for which the previous block had no space
  CHECK(read_stream(folder / "t", StreamId{1}).records.rbegin()[1].op() == Op::kBlockStart);
}
