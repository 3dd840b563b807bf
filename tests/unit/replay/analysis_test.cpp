// From a file to a profile: the call tree, and traces that are truncated or damaged anywhere.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/replay/compact/compactor.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

/// Writes to a new file. When a file is closed that was truncated before, ext4 begins to write it to the disk, and
/// the next change of the file waits for that.
void write_new(const TemporaryFile& file, const std::vector<std::uint8_t>& bytes) {
  ::unlink(file.path().c_str());
  TraceBuilder::write_bytes(file.path(), bytes);
}

model::Profile profile_of(const std::vector<std::uint8_t>& bytes) {
  const TemporaryFile path;
  write_new(path, bytes);
  return Analysis(path.path(), {}).profile();
}

}  // namespace

TEST_CASE("The call tree merges equal frames, keeps truncation roots and shows lost definitions") {
  TraceBuilder trace;
  auto& one = trace.stream();
  auto& two = trace.stream();
  one.module(2, "/lib/libx.so", "\xab\xcd", 0x7f0000001000, 0x7f0000000000);
  two.module(3, "/lib/libx.so", "\xab\xcd", 0x7e0000001000, 0x7e0000000000);  // the same file at another address
  one.node(1, 0, 2, 0x100);
  two.node(2, 0, 3, 0x100);  // the same frame
  one.node(3, 1, 2, 0x200);
  two.node(4, 2, 3, 0x200);
  one.node(10, 0, 0, static_cast<std::uint64_t>(Truncation::kBadRule));
  one.node(11, 10, 2, 0x300);
  one.node(20, 99, 2, 0x400);  // its parent is never defined
  one.node(30, 31, 2, 0x500);  // a cycle
  one.node(31, 30, 2, 0x600);
  one.node(40, 0, 1, 0xdeadbeef);  // code outside every object
  one.node(50, 0, 77, 0x700);      // of an object without a definition
  one.alloc(10, 0x1000, 1, 3);
  two.alloc(11, 0x2000, 2, 4);
  one.alloc(12, 0x3000, 4, 11);
  one.alloc(13, 0x4000, 8, 20);
  one.alloc(14, 0x5000, 16, 31);
  one.alloc(15, 0x6000, 32, 40);
  one.alloc(16, 0x7000, 64, 10);  // no frame of the stack is known
  one.alloc(17, 0x8000, 128, 50);
  const model::Profile profile = profile_of(trace.bytes());

  CHECK(profile.modules.size() == 3);  // none, libx, the lost one
  CHECK(profile.modules[1].path == "/lib/libx.so");
  CHECK(profile.modules[1].build_id == "abcd");
  CHECK(profile.modules[1].loads == 2);
  CHECK(profile.modules[2].lost);
  const auto node_with = [&](std::uint64_t bytes) -> const model::CallNode& {
    for (const model::CallNode& node : profile.nodes)
      if (node.costs.leaked_bytes == bytes) return node;
    FAIL("no stack holds " << bytes << " bytes");
    return profile.nodes[0];
  };
  const auto offset = [&](const model::CallNode& node) { return profile.addresses.at(node.address).offset; };
  const model::CallNode& merged = node_with(1 + 2);
  CHECK(offset(merged) == 0x200);
  CHECK(offset(profile.nodes[merged.parent]) == 0x100);
  CHECK(profile.runtime_address(profile.addresses[merged.address]) == 0x7f0000000200);
  CHECK(merged.truncated == nullptr);
  CHECK(node_with(4).truncated == std::string("bad_rule"));
  CHECK(offset(node_with(4)) == 0x300);
  CHECK(node_with(8).truncated == std::string("definition_lost"));
  CHECK(node_with(16).truncated == std::string("definition_lost"));
  CHECK(profile.addresses[node_with(32).address].module == 0);
  CHECK(node_with(64).address == model::kNoIndex);
  CHECK(node_with(64).truncated == std::string("bad_rule"));
  CHECK(profile.addresses[node_with(128).address].module == 2);
  for (std::size_t i = 1; i < profile.nodes.size(); ++i) REQUIRE(profile.nodes[i].parent < i);
}

TEST_CASE("The profile describes the recording") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  stream.text(TextKind::kProgram, 0, 0, "/usr/bin/demo");
  stream.text(TextKind::kCommandLine, 0, 1, std::string_view("demo\0-x\0two words\0", 18));
  stream.text(TextKind::kWorkingDirectory, 0, 0, "/home/user");
  stream.text(TextKind::kHost, 0, 0, "box");
  stream.text(TextKind::kNote, 0, 0, "something to know");
  stream.alloc(100, 0x1000, 1);
  stream.text(TextKind::kMark, 0, 70, "half way");
  stream.sample(150, 5'000'000'150, 123 << 20);
  trace.header.end_kind = EndKind::kSignal;
  trace.header.end_status = 9;
  trace.header.end_ticks = 500;
  const model::Profile profile = profile_of(trace.bytes());
  CHECK(profile.recording.program == "/usr/bin/demo");
  CHECK(profile.recording.command_line == std::vector<std::string>{"demo", "-x", "two words"});
  CHECK(profile.recording.command_line_cut);
  CHECK(profile.recording.working_directory == "/home/user");
  CHECK(profile.recording.host == "box");
  CHECK(profile.recording.pid == 4242);
  CHECK(profile.recording.duration_ns == 500);
  CHECK(profile.integrity.notes == std::vector<std::string>{"something to know"});
  CHECK(profile.integrity.ended_by == "signal");
  CHECK(profile.integrity.end_status == 9);
  REQUIRE(profile.timeline.marks.size() == 1);
  CHECK(profile.timeline.marks[0].time_ns == 70);
  CHECK(profile.timeline.peak_rss_bytes == 123 << 20);
}

namespace {

/// A small trace with every kind of part: two streams, frames, staging blocks, texts.
TraceBuilder small_trace() {
  TraceBuilder trace;
  auto& one = trace.stream(20);
  one.thread(1, "main");
  one.text(TextKind::kProgram, 0, 0, "/usr/bin/demo");
  one.module(2, "/usr/bin/demo", "\x01\x02\x03\x04", 0x1000, 0);
  auto& two = trace.stream(20);
  two.thread(2, "worker");
  for (std::uint32_t i = 1; i <= 60; ++i) {
    auto& stream = i % 3 == 0 ? two : one;
    stream.node(i, i - 1, 2, i * 16);
    stream.alloc(i * 10, 0x1000 + i * 64, i, i);
    if (i % 4 == 0) stream.free(i * 10 + 1, 0x1000 + (i - 2) * 64);
  }
  return trace;
}

}  // namespace

TEST_CASE("A mark after the last event, set in a late destructor, is within the recording") {
  TraceBuilder trace;
  trace.header.end_kind = EndKind::kExit;
  trace.header.end_ticks = 100;
  auto& stream = trace.stream();
  stream.alloc(90, 0x1000, 1);
  stream.text(TextKind::kMark, 0, 130, "late");
  const model::Profile profile = profile_of(trace.bytes());
  REQUIRE(profile.timeline.marks.size() == 1);
  CHECK(profile.timeline.marks[0].time_ns == 130);
  CHECK(profile.recording.duration_ns == 130);
}

TEST_CASE("A trace that is truncated at any byte is read up to that byte, and missing data is reported") {
  TraceBuilder trace = small_trace();
  const std::vector<std::uint8_t> whole = trace.bytes();
  const std::uint64_t events = trace.events();
  CHECK(profile_of(whole).events() == events);
  CHECK(profile_of(whole).integrity.complete);

  const TemporaryFile path;
  // Truncated after every byte that is not zero, and at every boundary of a unit.
  std::size_t refused = 0;
  std::size_t last_set = whole.size();
  while (last_set > 0 && whole[last_set - 1] == 0) --last_set;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const bool interesting = size % 4096 == 0 || size % 4096 == 4095 || (size > 0 && whole[size - 1] != 0);
    if (!interesting) continue;
    INFO("truncated to " << size << " bytes");
    std::vector<std::uint8_t> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    write_new(path, cut);
    try {
      const Analysis analysis(path.path(), {});
      const model::Profile& profile = analysis.profile();
      REQUIRE(profile.events() <= events);
      const model::Integrity& integrity = profile.integrity;
      if (profile.events() != events) {
        REQUIRE_FALSE(integrity.complete);
        if (integrity.events_lost) REQUIRE(profile.events() + *integrity.events_lost == events);
      }
      if (size < last_set) REQUIRE_FALSE(integrity.complete);
    } catch (const trace::TraceError& error) {
      ++refused;
      REQUIRE(size < 512);
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("A truncated trace has one note about its truncation") {
  TraceBuilder trace = small_trace();
  const std::size_t frame = trace.frame_offsets(0).front();
  const std::size_t slots = trace.staging_offset(0) + sizeof(StagingHeader);
  for (const bool size_in_header : {false, true}) {
    if (size_in_header) trace.header.file_bytes = trace.bytes().size();
    const std::vector<std::uint8_t> whole = trace.bytes();
    for (const std::size_t size : {frame + 8, slots + 1, slots - 1, sizeof(FileHeader) - 1}) {
      CAPTURE(size_in_header, size);
      const std::vector<std::uint8_t> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      const std::vector<std::string> notes = profile_of(cut).integrity.notes;
      CHECK(std::ranges::count_if(
                notes, [](const std::string& note) { return note.find("truncated") != std::string::npos; }) == 1);
    }
  }
}

TEST_CASE("A trace that is damaged anywhere is read, and is not complete when events are missing") {
  TraceBuilder trace = small_trace();
  const std::vector<std::uint8_t> whole = trace.bytes();
  const std::uint64_t events = trace.events();
  std::mt19937 random(heapprof::test::seed(5));
  const TemporaryFile path;
  std::vector<std::size_t> places;
  for (std::size_t i = 128; i < whole.size(); ++i)
    if (whole[i] != 0) places.push_back(i);
  for (int round = 0; round < 3'000; ++round) {
    std::vector<std::uint8_t> bytes = whole;
    const std::size_t at = places[random() % places.size()];
    const std::size_t length = random() % 4 == 0 ? 1 + random() % 5'000 : 1;
    for (std::size_t i = at; i < std::min(at + length, bytes.size()); ++i)
      bytes[i] = round % 3 == 0 ? 0 : static_cast<std::uint8_t>(random());
    write_new(path, bytes);
    const Analysis analysis(path.path(), {});
    const model::Integrity& integrity = analysis.profile().integrity;
    const std::uint64_t seen = analysis.profile().events();
    INFO("round " << round << ", byte " << at << ", " << length << " bytes");
    // Slots have no checksum: a changed op in a staging block may not be detected; one in a frame is.
    const bool in_staging = [&] {
      for (const std::size_t stream : {0u, 1u}) {
        const std::size_t staging = trace.staging_offset(stream);
        if (at < staging + 4096 && at + length > staging) return true;
      }
      return false;
    }();
    if (in_staging) continue;
    if (seen != events) REQUIRE_FALSE(integrity.complete);
    if (integrity.events_lost) REQUIRE(seen + *integrity.events_lost == events);
  }
}

TEST_CASE("Random bytes after a valid header do not crash the analysis") {
  std::mt19937 random(heapprof::test::seed(9));
  TraceBuilder trace = small_trace();
  const std::vector<std::uint8_t> whole = trace.bytes();
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint8_t> bytes = whole;
    for (int i = 0; i < 400; ++i)
      bytes[4096 + random() % (bytes.size() - 4096)] = static_cast<std::uint8_t>(random());
    const model::Profile profile = profile_of(bytes);
    CHECK(profile.events() <= trace.events() + 1'000);
  }
}

TEST_CASE("A small hostile frame does not make the analysis use much memory or time") {
  TraceBuilder trace;
  auto& stream = trace.stream();
  for (std::uint32_t i = 0; i < 100; ++i) stream.alloc(i, 16 + 16 * i, 1, 0xffffffff - i * 1'000'003);
  stream.alloc(UINT64_MAX, 0x10, kMaxSize, 5);
  stream.free(UINT64_MAX, 0);
  stream.alloc(UINT64_MAX, 0, 1);
  stream.add(Op::kMap, UINT64_MAX, UINT64_MAX - 10, kMaxSize, 0, 0xffffffff);
  stream.add(Op::kUnmapBegin, UINT64_MAX, 0, kMaxSize);
  stream.add(Op::kBrk, UINT64_MAX, UINT64_MAX, 0);
  stream.flush();
  const model::Profile profile = profile_of(trace.bytes());
  CHECK(profile.heap.allocations == 101);
  CHECK(profile.timeline.buckets.size() <= model::Timeline::kMaxBuckets);
}

TEST_CASE("The end time of a recording is used up to a year, by the clock of its samples") {
  // A processor of 3 GHz; the header does not contain this rate.
  constexpr std::uint64_t kRate = 3'000'000'000;
  constexpr std::uint64_t kHour = 3600;
  constexpr std::uint64_t kYear = 365 * 24 * kHour;
  TraceBuilder trace;
  trace.header.clock = Clock::kTsc;
  trace.header.ticks_per_second = 0;
  auto& stream = trace.stream();
  stream.alloc(100, 0x1000, 1);
  for (std::uint64_t second = 1; second <= 10; ++second)
    stream.sample(second * kRate, trace.header.start_monotonic_ns + second * 1'000'000'000, 1 << 20);
  trace.header.end_kind = EndKind::kExit;
  trace.header.end_status = 0;
  const auto duration_s = [&](std::uint64_t end_ticks) {
    trace.header.end_ticks = end_ticks;
    return profile_of(trace.bytes()).recording.duration_ns / 1'000'000'000;
  };
  CHECK(duration_s(4 * kHour * kRate) == 4 * kHour);
  CHECK(duration_s(kYear * kRate) == kYear);
  // Longer than a year: the end time is damaged.
  CHECK(duration_s(2 * kYear * kRate) == 10);
  CHECK(duration_s(~std::uint64_t{0}) == 10);
}

TEST_CASE("When a program had ended at the latest is known, unless it may still run") {
  const auto end_of = [](EndKind kind, time_t modified_s = 0, std::uint64_t real_end_ns = 0) {
    TraceBuilder trace;
    trace.header.start_realtime_ns = 1'000;
    trace.header.end_kind = kind;
    trace.header.end_ticks = 5'000;
    trace.header.end_realtime_ns = real_end_ns;
    trace.stream().alloc(100, 0x1000, 1);
    const TemporaryFile path;
    trace.write(path.path());
    const timespec times[2] = {{modified_s, 0}, {modified_s, 0}};
    REQUIRE(utimensat(AT_FDCWD, path.path().c_str(), times, 0) == 0);
    return Analysis(path.path(), Selection{}).profile().recording.ended_realtime_ns;
  };
  constexpr std::uint64_t kMinute = 60'000'000'000;
  CHECK(end_of(EndKind::kExit) == 6'000 + kMinute);
  CHECK(end_of(EndKind::kSignal) == 6'000 + kMinute);
  CHECK(end_of(EndKind::kNone) == 1'100 + kMinute);  // killed after its last event
  // Another program has its process id from then on. The real time may be a thousandth faster.
  CHECK(end_of(EndKind::kExec) == 6'005);
  CHECK(end_of(EndKind::kExec, 30) == 6'005);
  CHECK(end_of(EndKind::kStopped) == 0);
  // The machine was suspended, or the clock was set: the file was written later than its events say.
  CHECK(end_of(EndKind::kExit, 30) == kMinute / 2 + kMinute);
  CHECK(end_of(EndKind::kNone, 30) == kMinute / 2 + kMinute);
  // The real time of the end is known: a copy of the file is younger.
  for (const EndKind kind : {EndKind::kExit, EndKind::kSignal}) {
    CHECK(end_of(kind, 300, kMinute) == 2 * kMinute);
    CHECK(end_of(kind, 300, 2'000) == 6'000 + kMinute);  // the clock was set back
  }
  CHECK(end_of(EndKind::kExec, 300, kMinute) == kMinute);
}

TEST_CASE("The kind of a note, not its text, decides whether figures can be wrong") {
  const auto names_reason = [](NoteKind kind, std::string_view words) {
    TraceBuilder trace;
    auto& stream = trace.stream();
    stream.thread(100, "main");
    stream.text(TextKind::kNote, static_cast<std::uint64_t>(kind), 0, words);
    stream.free(10, 0x1000);
    const TemporaryFile path, compacted;
    trace.write(path.path());
    const auto notes_of = [](const std::string& file) {
      return Analysis(file, {}, {}, {.use = false, .keep = false}).profile().integrity.notes;
    };
    const std::vector<std::string> notes = notes_of(path.path());
    REQUIRE(notes.size() == 2);
    CHECK(notes[0] == words);
    compact(path.path(), compacted.path(), {});
    CHECK(notes_of(compacted.path()) == notes);
    return notes[1].ends_with(", perhaps because some calls were not recorded");
  };
  CHECK(names_reason(NoteKind::kNotRecorded, "frees by worker threads are missing"));
  CHECK_FALSE(names_reason(NoteKind::kInformation, "the setting X was not recorded: it has its default"));
  CHECK_FALSE(names_reason(static_cast<NoteKind>(77), "of a later version"));
  // Recorders without kinds of notes.
  CHECK(names_reason(NoteKind::kUntyped, "je_malloc of app is not recorded: it is too short"));
  CHECK_FALSE(names_reason(NoteKind::kUntyped, "something to know"));
}
