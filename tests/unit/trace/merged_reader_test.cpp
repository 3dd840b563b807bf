// Merging of streams, gaps in streams, and traces of running programs.
#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/trace/copy_without_arguments.h"
#include "analyzer/trace/events/limits.h"
#include "analyzer/trace/merged_reader.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

struct Merged {
  std::vector<MergedEvent> events;
  Definitions definitions;
  Damage damage;  ///< of file and streams
};

Merged merge_bytes(const std::vector<std::uint8_t>& bytes) {
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());
  MergedReader reader(file);
  Merged result;
  Batch batch;
  while (reader.next(batch))
    for (const MergedEvent& event : batch.events()) result.events.push_back(event);
  result.definitions = reader.definitions();
  result.damage = file.damage();
  result.damage.add(reader.damage());
  return result;
}

std::uint64_t heap_events(const Merged& merged) {
  std::uint64_t count = 0;
  for (const MergedEvent& event : merged.events) {
    const Slot slot{event.time, event.address, event.op_size, event.node, 0};
    count += is_event(slot);
  }
  return count;
}

}  // namespace

TEST_CASE("Streams are merged by time, each in its own order") {
  std::mt19937 random(heapprof::test::seed(7));
  TraceBuilder trace;
  constexpr std::size_t kStreams = 5;
  std::vector<TraceBuilder::Stream*> streams;
  for (std::size_t i = 0; i < kStreams; ++i) streams.push_back(&trace.stream(30));
  std::vector<std::uint64_t> counts(kStreams, 0);
  std::uint64_t time = 0;
  for (int i = 0; i < 30'000; ++i) {
    time += random() % 3;
    const std::size_t which = random() % kStreams;
    streams[which]->alloc(time, 16 * (++counts[which]), which + 1);
  }
  const Merged merged = merge_bytes(trace.bytes());
  REQUIRE(merged.events.size() == 30'000);
  CHECK_FALSE(merged.damage.incomplete);
  std::vector<std::uint64_t> seen(kStreams, 0);
  std::uint64_t last = 0;
  for (const MergedEvent& event : merged.events) {
    REQUIRE(event.time >= last);
    last = event.time;
    REQUIRE(event.size() == event.stream() + 1);
    REQUIRE(event.address == 16 * ++seen[event.stream()]);
  }
}

TEST_CASE("A process killed between frame and commit word leaves one copy of the block") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (int i = 0; i < 10; ++i)
    stream.alloc(static_cast<std::uint64_t>(i), 0x1000u + 16u * static_cast<unsigned>(i), 1);
  stream.flush_and_die();
  const Merged merged = merge_bytes(trace.bytes());
  CHECK(merged.events.size() == 10);
  CHECK_FALSE(merged.damage.incomplete);
}

TEST_CASE("If the last frame is damaged, the staging block is used") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (int i = 0; i < 10; ++i)
    stream.alloc(static_cast<std::uint64_t>(i), 0x1000u + 16u * static_cast<unsigned>(i), 1);
  stream.flush_and_die();
  auto bytes = trace.bytes();
  bytes[trace.frame_offsets(0)[0] + sizeof(FrameHeader) + 5] ^= 1;
  const Merged merged = merge_bytes(bytes);
  CHECK(merged.events.size() == 10);
  CHECK(merged.damage.bytes > sizeof(FrameHeader));
  CHECK(merged.damage.events_lost == 0);
}

TEST_CASE("A frame whose payload is damaged loses exactly its events") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (int block = 0; block < 4; ++block) {
    for (int i = 0; i < 10 + block; ++i)
      stream.alloc(static_cast<std::uint64_t>(100 * block + i),
                   0x1000u + 16u * static_cast<unsigned>(100 * block + i), 1);
    stream.flush();
  }
  stream.alloc(1000, 0x9000, 1);
  auto bytes = trace.bytes();
  SECTION("in the middle") {
    bytes[trace.frame_offsets(0)[1] + sizeof(FrameHeader) + 3] ^= 0x40;
    const Merged merged = merge_bytes(bytes);
    CHECK(merged.damage.events_lost == 11);
    CHECK(heap_events(merged) == trace.events() - 11);
    CHECK(merged.damage.incomplete);
  }
  SECTION("the last one") {
    bytes[trace.frame_offsets(0)[3] + sizeof(FrameHeader) + 3] ^= 0x40;
    const Merged merged = merge_bytes(bytes);
    CHECK(merged.damage.events_lost == 13);
    CHECK(heap_events(merged) == trace.events() - 13);
  }
  SECTION("all of them") {
    for (const std::size_t at : trace.frame_offsets(0)) bytes[at + sizeof(FrameHeader) + 3] ^= 0x40;
    const Merged merged = merge_bytes(bytes);
    CHECK(merged.damage.events_lost == 10 + 11 + 12 + 13);
    CHECK(heap_events(merged) == 1);
  }
  SECTION("header and payload") {
    std::memset(&bytes[trace.frame_offsets(0)[1]], 0x5a, 100);
    const Merged merged = merge_bytes(bytes);
    CHECK(merged.damage.events_lost == 11);
  }
}

TEST_CASE("Without its staging block, a stream has lost an unknown number of events") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 1);
  stream.flush();
  stream.alloc(2, 0x2000, 1);
  stream.has_staging = false;
  SECTION("unless the header has the flag that staging blocks are not in the file") {
    trace.header.flags = kHeaderTailNotKillSafe;
    const Merged merged = merge_bytes(trace.bytes());
    CHECK(merged.events.size() == 1);
  }
  SECTION("as usual") {
    const Merged merged = merge_bytes(trace.bytes());
    CHECK(merged.damage.incomplete);
    CHECK_FALSE(merged.damage.events_lost.has_value());
    CHECK(merged.events.size() == 1);
  }
}

TEST_CASE("A commit word with too many slots is damage") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.alloc(1, 0x1000, 1);
  auto bytes = trace.bytes();
  const std::uint64_t word = commit_word(0, 4'000'000);
  std::memcpy(&bytes[trace.staging_offset(0) + offsetof(StagingHeader, commit)], &word, sizeof word);
  const Merged merged = merge_bytes(bytes);
  CHECK(merged.damage.incomplete);
  CHECK(merged.damage.bytes == 8);
  CHECK_FALSE(merged.damage.events_lost.has_value());
}

TEST_CASE("Slots that no recorder writes are ignored") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (int i = 1; i <= 9; ++i) stream.alloc(static_cast<std::uint64_t>(i), 0x1000u * static_cast<unsigned>(i), 1);
  auto bytes = trace.bytes();
  const std::size_t fifth = trace.staging_offset(0) + sizeof(StagingHeader) + 5 * sizeof(Slot);
  bytes[fifth + offsetof(Slot, op_size)] = 200;
  const Merged merged = merge_bytes(bytes);
  CHECK(merged.events.size() == 8);
  CHECK(merged.damage.bytes == sizeof(Slot));
  CHECK(merged.damage.incomplete);
}

TEST_CASE("Definitions are read from frames and from staging blocks, of both versions") {
  TraceBuilder trace;
  trace.header.version_major = GENERATE(true, false) ? kVersionMajor : kOldVersionMajor;
  auto& stream = trace.stream();
  stream.text(TextKind::kProgram, 0, 0, "/usr/bin/demo");
  stream.module(2, "/usr/bin/demo", "\x12\x34", 0x400000, 0x400000, 0x1000, true);
  stream.node(70'000'000, 0, 2, 0x123);
  stream.alloc(1, 0x1000, 8, 70'000'000);
  stream.flush();
  stream.node(5, 70'000'000, 2, 0x456, kNodeByFramePointer);
  stream.alloc(2, 0x2000, 8, 5);
  stream.alloc(3, 0x3000, 8, 4'000'000'000);
  const Merged merged = merge_bytes(trace.bytes());
  CHECK(merged.definitions.program == "/usr/bin/demo");
  REQUIRE(merged.definitions.modules.size() == 1);
  CHECK(merged.definitions.modules[0].build_id == "\x12\x34");
  CHECK(merged.definitions.modules[0].path == "/usr/bin/demo");
  CHECK(merged.definitions.modules[0].is_main);
  CHECK(merged.definitions.node_count == 4);
  REQUIRE(merged.events.size() == 3);
  const NodeDefinition& outer = merged.definitions.nodes[merged.events[0].node];
  const NodeDefinition& inner = merged.definitions.nodes[merged.events[1].node];
  CHECK(outer.offset == 0x123);
  CHECK(outer.parent == 0);
  CHECK(inner.offset == 0x456);
  CHECK(inner.parent == merged.events[0].node);
  CHECK(inner.guessed);
  const std::uint32_t undefined = merged.events[2].node;
  CHECK((undefined >= merged.definitions.nodes.size() || !merged.definitions.nodes[undefined].defined));
}

TEST_CASE("The arguments of a command line behind nodes are left out of a copy") {
  TraceBuilder trace;
  trace.header.version_major = GENERATE(true, false) ? kVersionMajor : kOldVersionMajor;
  auto& stream = trace.stream();
  stream.node(1000, 0, 2, 0x12345);
  stream.node(1001, 1000, 300, 0x678);
  stream.node(1003, 1000, 300, 0x9);
  stream.text(TextKind::kCommandLine, 0, 0, std::string("demo\0", 5) + std::string(200, 's'));
  stream.node(1002, 1001, 2, 0x9abc);
  stream.flush();
  const TemporaryFile path;
  trace.write(path.path());
  std::vector<std::uint8_t> copy;
  copy_without_arguments(TraceFile(path.path()),
                         [&](std::string_view bytes) { copy.insert(copy.end(), bytes.begin(), bytes.end()); });
  const Merged merged = merge_bytes(copy);
  CHECK(merged.damage.bytes == 0);
  CHECK(merged.definitions.command_line == "demo");
  CHECK(merged.definitions.command_line_omitted);
  REQUIRE(merged.definitions.node_count == 5);
  CHECK(merged.definitions.nodes[4].offset == 0x9abc);
}

TEST_CASE("Ids of nodes beyond the limit have no index, and known ones keep theirs") {
  NodeIndex index;
  CHECK(index(5) == 1);
  CHECK(index(~0u) == 2);
  index.set_limit(4);
  CHECK(index(7) == 3);
  CHECK_FALSE(index.exceeds_limit());
  CHECK(index(9) == 0);
  CHECK(index(~0u - 1) == 0);
  CHECK(index.exceeds_limit());
  CHECK(index(5) == 1);
  CHECK(index(~0u) == 2);
  CHECK(index.size() == 4);
  index.set_limit(5);
  CHECK(index(9) == 4);
}

TEST_CASE("Stacks beyond the limit of a recording are empty, and no event is lost") {
  constexpr std::uint32_t kEvents = 500'000;
  TraceBuilder trace;
  auto& stream = trace.stream(2'046);
  for (std::uint32_t node = 1; node <= kEvents; ++node) stream.add(Op::kAllocFailed, 10, 0, 16, node);
  const std::vector<std::uint8_t> bytes = trace.bytes();
  REQUIRE(max_nodes(bytes.size()) < kEvents);
  const Merged merged = merge_bytes(bytes);
  REQUIRE(merged.events.size() == kEvents);
  CHECK(merged.events.front().node == 1);
  CHECK(merged.events.back().node == 0);
  CHECK(merged.damage.incomplete);
  CHECK(merged.damage.events_lost == 0);
  REQUIRE(merged.damage.notes.size() == 1);
  CHECK(merged.damage.notes[0].starts_with("the stacks exceed what a file of this size can hold"));
}

TEST_CASE("Modules and code objects beyond the limit are ignored, and no event is lost") {
  constexpr std::uint32_t kTexts = 22'000;
  const std::string path(1'000, 'm');
  TraceBuilder trace;
  auto& stream = trace.stream(2'046);
  std::string expected;
  SECTION("modules") {
    expected = "the modules exceed what a file of this size can hold";
    for (std::uint32_t id = 1; id <= kTexts; ++id) stream.module(id, path, "", id * std::uint64_t{0x10000}, 0);
  }
  SECTION("code objects") {
    expected = "the code objects of Python exceed what a file of this size can hold";
    for (std::uint32_t number = 1; number <= kTexts; ++number) stream.text(TextKind::kPythonCode, number, 1, path);
  }
  stream.alloc(10, 0x1000, 8);
  const std::vector<std::uint8_t> bytes = trace.bytes();
  REQUIRE(kTexts * text_cost_bytes(path.size()) > max_text_bytes(bytes.size()));
  const Merged merged = merge_bytes(bytes);
  CHECK(merged.events.size() == 1);
  CHECK(merged.definitions.modules.size() < kTexts);
  CHECK(merged.damage.incomplete);
  CHECK(merged.damage.events_lost == 0);
  REQUIRE(merged.damage.notes.size() == 1);
  CHECK(merged.damage.notes[0].starts_with(expected));
}

TEST_CASE("Few ids of nodes are compared, also if they were chosen for one bucket of a hash map") {
  constexpr std::uint32_t kIds = 2'000;
  std::unordered_map<std::uint32_t, std::uint32_t> usual;
  for (std::uint32_t i = 0; i < kIds; ++i) usual[i] = i;
  const auto buckets = static_cast<std::uint32_t>(usual.bucket_count());
  const auto id = [&](std::uint32_t i) { return (1'000 + i) * buckets; };  // too far from each other for an array
  NodeIndex index;
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < kIds; ++i) wrong += index(id(i)) != i + 1;
  for (std::uint32_t i = 0; i < kIds; ++i) wrong += index(id(i)) != i + 1 || index.find(id(i)) != i + 1;
  CHECK(wrong == 0);
  CHECK(index.find(id(kIds)) == NodeIndex::kNoIndex);
  CHECK(index.max_compared() > 0);
  CHECK(index.max_compared() < 30);
}

TEST_CASE("A text that is longer than the bytes after its length is rejected") {
  const std::vector<std::uint8_t> bytes = {4, 'a', 'b', 'c'};  // three bytes are left, four with that of the length
  trace::ByteReader reader(bytes);
  CHECK_THROWS_AS(reader.text(), trace::FormatError);
  trace::ByteReader again(bytes);
  CHECK_THROWS_AS(again.count(), trace::FormatError);
}
