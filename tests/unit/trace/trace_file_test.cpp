// Opening traces: which files are refused with which message, what is indexed, and which damage is reported.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/trace/embedded_symbols.h"
#include "analyzer/trace/trace_file.h"
#include "tests/support/claim_running.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::claim_to_be_running;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

std::string refusal(const std::string& path) {
  try {
    const TraceFile file(path);
  } catch (const TraceError& error) {
    return error.what();
  }
  return {};
}

/// An hour old: a file that is just being created would be waited for.
std::string refusal_of(const std::vector<std::uint8_t>& bytes) {
  const TemporaryFile file;
  TraceBuilder::write_bytes(file.path(), bytes);
  std::filesystem::last_write_time(file.path(),
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  return refusal(file.path());
}

std::vector<std::uint8_t> text(const std::string& content) { return {content.begin(), content.end()}; }

/// Writes two streams: one with three frames and a partial block, one with a partial block only.
void fill(TraceBuilder& trace) {
  auto& first = trace.stream();
  first.thread(100, "main");
  for (int block = 0; block < 3; ++block) {
    for (int i = 0; i < 50; ++i)
      first.alloc(static_cast<std::uint64_t>(block * 100 + i), 0x1000u + 16u * static_cast<unsigned>(block * 50 + i),
                  32);
    first.flush();
  }
  first.alloc(400, 0x9000, 8);
  auto& second = trace.stream();
  second.thread(101, "worker");
  second.alloc(10, 0x8000, 8);
}

/// As fill(); the program began a millisecond ago and still runs.
void fill_as_running(TraceBuilder& trace) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  trace.header.start_monotonic_ns = trace.header.start_ticks =
      static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec) - 1'000'000;
  fill(trace);
  claim_to_be_running(trace.header);
}

struct FirstStream {
  bool has_staging;
  std::uint32_t sequence;  ///< of the staging block
  std::size_t frames;
};

/// Opens the trace of fill() as that of a running program. `commit`: the commit word of its first staging block.
FirstStream first_stream_while_running(std::uint32_t flags, std::uint64_t commit) {
  TraceBuilder trace;
  fill_as_running(trace);
  trace.header.flags = flags;
  auto bytes = trace.bytes();
  std::memcpy(&bytes[trace.staging_offset(0) + offsetof(StagingHeader, commit)], &commit, sizeof commit);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const int descriptor = ::open(path.path().c_str(), O_RDWR);
  void* const mapping = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  const TraceFile file(path.path());
  ::munmap(mapping, 4096);
  REQUIRE(file.recorder() == RecorderState::kRecording);
  REQUIRE(file.streams().size() == 2);
  const StreamIndex& first = file.streams()[0];
  return {first.has_staging, first.staging_sequence, first.frames.size()};
}

}  // namespace

TEST_CASE("A file that is not a trace is refused with the reason and what to do") {
  using Catch::Matchers::Contains;
  CHECK_THAT(refusal("/nonexistent/trace"), Contains("/nonexistent/trace") && Contains("No such file"));
  CHECK_THAT(refusal("/tmp"), Contains("is a directory"));
  CHECK_THAT(refusal("/dev/null"), Contains("not a regular file"));
  CHECK_THAT(refusal_of({}), Contains("is empty"));
  CHECK_THAT(refusal_of(text("once upon a time\n")), Contains("is a text file"));
  CHECK_THAT(refusal_of(text("\x1f\x8b\x08 and so on")), Contains("is compressed"));
  CHECK_THAT(refusal_of(text("\x7f"
                             "ELF\x02\x01")),
             Contains("is a program or library"));
  CHECK_THAT(refusal_of(text(std::string("\x01\x02\x03\x04", 4))), Contains("is not a heapprof trace"));
  CHECK_THAT(refusal_of(std::vector<std::uint8_t>(4096, 0)), Contains("contains only zeros"));
  TraceBuilder trace;
  fill(trace);
  auto unfinished = trace.bytes();
  std::fill_n(unfinished.begin(), sizeof kFileMagic, std::uint8_t{0});
  CHECK_THAT(refusal_of(unfinished), Contains("its program ended before recording began"));
  // Line ends changed by a transfer in text mode.
  CHECK_THAT(refusal_of(text("\x89HPRF\n\x1a and so on")), Contains("transfer in text mode"));
  CHECK_THAT(refusal_of(text("\x89HPRF\r\n\x1a")), Contains("within its header"));
}

TEST_CASE("A newer major version is refused, with a message that names it; a newer minor version is read") {
  TraceBuilder trace;
  fill(trace);
  trace.header.version_major = 4;
  CHECK_THAT(refusal_of(trace.bytes()),
             Catch::Contains("trace version 4.0, but this heapprof reads versions up to 3.x; use a newer heapprof"));
  trace.header.version_minor = 7;
  for (const std::uint16_t major : {kVersionMajor, kOldVersionMajor}) {
    trace.header.version_major = major;
    CHECK(refusal_of(trace.bytes()).empty());
  }
}

TEST_CASE("A valid trace is indexed completely") {
  TraceBuilder trace;
  fill(trace);
  const TemporaryFile path;
  trace.write(path.path());
  const TraceFile file(path.path());
  REQUIRE(file.streams().size() == 2);
  CHECK(file.streams()[0].frames.size() == 3);
  CHECK(file.streams()[0].staging_sequence == 3);
  CHECK(file.streams()[0].staging.size() == 2);
  CHECK(file.streams()[1].frames.empty());
  CHECK(file.streams()[1].staging.size() == 4);  // block start, thread and its text, one event
  CHECK_FALSE(file.damage().incomplete);
  CHECK(file.damage().bytes == 0);
  CHECK(file.damage().notes.empty());
  CHECK(file.recorder() == RecorderState::kGone);
  CHECK(file.ended_by() == "unknown");
}

TEST_CASE("ended_by() is the end kind of the header") {
  TraceBuilder trace;
  fill(trace);
  const auto ended_by = [&](EndKind kind) {
    trace.header.end_kind = kind;
    const TemporaryFile path;
    trace.write(path.path());
    return TraceFile(path.path()).ended_by();
  };
  CHECK(ended_by(EndKind::kExit) == "exit");
  CHECK(ended_by(EndKind::kExec) == "exec");
  CHECK(ended_by(EndKind::kSignal) == "signal");
  CHECK(ended_by(EndKind::kStopped) == "stopped");
  CHECK(ended_by(static_cast<EndKind>(77)) == "unknown");
}

TEST_CASE("A damaged frame header hides only that frame") {
  TraceBuilder trace;
  fill(trace);
  auto bytes = trace.bytes();
  const std::size_t second = trace.frame_offsets(0)[1];
  const std::size_t third = trace.frame_offsets(0)[2];
  bytes[second + 20] ^= 0x10;
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());
  REQUIRE(file.streams()[0].frames.size() == 2);
  CHECK(file.streams()[0].frames[1].sequence == 2);
  CHECK(file.damage().incomplete);
  CHECK(file.damage().bytes == third - second);
  REQUIRE(file.damage().notes.size() == 1);
  CHECK_THAT(file.damage().notes[0], Catch::Contains("byte " + std::to_string(second)));
}

TEST_CASE("A frame header of zeros does not hide the following frames") {
  TraceBuilder trace;
  fill(trace);
  auto bytes = trace.bytes();
  std::memset(&bytes[trace.frame_offsets(0)[0]], 0, sizeof(FrameHeader));
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());
  CHECK(file.streams()[0].frames.size() == 2);
  CHECK(file.damage().incomplete);
}

TEST_CASE("A damaged extent header hides no frame of the extent") {
  TraceBuilder trace;
  fill(trace);
  auto bytes = trace.bytes();
  const std::size_t extent = trace.frame_offsets(0)[0] - sizeof(ExtentHeader);
  bytes[extent + 3] ^= 0xff;
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());
  CHECK(file.streams()[0].frames.size() == 3);
  CHECK(file.streams().size() == 2);
  CHECK(file.damage().bytes == sizeof(ExtentHeader));
  CHECK(file.damage().incomplete);
}

TEST_CASE("A damaged staging header loses an unknown number of events") {
  TraceBuilder trace;
  fill(trace);
  auto bytes = trace.bytes();
  bytes[trace.staging_offset(1) + 30] ^= 0xff;
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());
  CHECK(file.streams().size() == 1);
  CHECK(file.damage().incomplete);
  CHECK_FALSE(file.damage().events_lost.has_value());
}

TEST_CASE("An extent without magic, whose recorder was killed before it stored it, is not damage") {
  TraceBuilder trace;
  fill(trace);
  auto bytes = trace.bytes();
  const std::size_t at = bytes.size();
  bytes.resize(at + 65536, 0);
  ExtentHeader extent{0, TraceBuilder::kFileId, at, 65536, ExtentKind::kFrames, static_cast<StreamId>(1), 9, 0};
  std::memcpy(&bytes[at], &extent, sizeof extent);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());
  CHECK_FALSE(file.damage().incomplete);
}

TEST_CASE("Frames of another file in stale space are ignored") {
  TraceBuilder trace;
  fill(trace);
  auto bytes = trace.bytes();
  // A valid frame with the id of another file.
  FrameHeader header;
  std::memcpy(&header, &bytes[trace.frame_offsets(0)[0]], sizeof header);
  header.file_id ^= 1;
  header.header_checksum = checksum(&header, offsetof(FrameHeader, header_checksum));
  CHECK_FALSE(is_frame(header, TraceBuilder::kFileId, 0, 1 << 20));
  header.file_id ^= 1;
  header.header_checksum = checksum(&header, offsetof(FrameHeader, header_checksum));
  CHECK(is_frame(header, TraceBuilder::kFileId, 0, 1 << 20));
  CHECK_FALSE(is_frame(header, TraceBuilder::kFileId, 0, sizeof header + 1));
}

TEST_CASE("With a damaged header the file id is taken from the extents") {
  TraceBuilder trace;
  fill(trace);
  auto bytes = trace.bytes();
  bytes[16] ^= 0xff;  // file_id
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());
  CHECK(file.streams().size() == 2);
  CHECK(file.streams()[0].frames.size() == 3);
  CHECK(file.damage().incomplete);
  CHECK(file.damage().bytes == 128);
}

TEST_CASE("A damaged byte of the header, the version included, hides no stream") {
  TraceBuilder trace;
  fill(trace);
  const auto sound = trace.bytes();
  const TemporaryFile path;
  for (std::size_t at = offsetof(FileHeader, version_major); at < offsetof(FileHeader, zero_1); ++at) {
    for (const unsigned char bits : {0x01, 0x02, 0x10, 0x80, 0xff}) {
      CAPTURE(at, bits);
      auto bytes = sound;
      bytes[at] ^= bits;
      TraceBuilder::write_bytes(path.path(), bytes);
      CHECK(refusal(path.path()).empty());
      if (!refusal(path.path()).empty()) continue;
      const TraceFile file(path.path());
      REQUIRE(file.streams().size() == 2);
      CHECK(file.streams()[0].frames.size() == 3);
      CHECK(file.streams()[1].staging.size() == 4);
      CHECK(file.header().version_major == kVersionMajor);
      CHECK(file.damage().bytes == 128);
      CHECK(file.damage().incomplete);
    }
  }
}

TEST_CASE("A compacted trace with a damaged header and embedded symbols is refused") {
  TraceBuilder trace;
  trace.header.version_major = kCompactedVersionMajor;
  auto bytes = trace.bytes();
  const std::string names = symbol_extents("names", {}, TraceBuilder::kFileId, bytes.size(), kUnitBytes);
  bytes.insert(bytes.end(), names.begin(), names.end());
  bytes[offsetof(FileHeader, clock)] ^= 1;
  CHECK_THAT(refusal_of(bytes), Catch::Contains("the header is damaged"));
}

TEST_CASE("A header of a newer version with a wrong checksum is refused, and the message has both reasons") {
  using Catch::Matchers::Contains;
  TraceBuilder trace;
  trace.header.version_major = 99;
  auto bytes = trace.bytes();
  bytes[offsetof(FileHeader, checksum)] ^= 1;
  CHECK_THAT(refusal_of(bytes), Contains("trace version 99.0") && Contains("header checksum"));
}

TEST_CASE("settings() are the lines in the header") {
  TraceBuilder trace;
  fill(trace);
  std::strcpy(trace.header.settings, "HEAPPROF_MMAP=1\nHEAPPROF_OUTPUT=a=b\n");
  const TemporaryFile path;
  trace.write(path.path());
  const TraceFile file(path.path());
  const auto settings = file.settings();
  REQUIRE(settings.size() == 2);
  CHECK(settings[0] == std::pair<std::string, std::string>("HEAPPROF_MMAP", "1"));
  CHECK(settings[1] == std::pair<std::string, std::string>("HEAPPROF_OUTPUT", "a=b"));
}

TEST_CASE("Of a program that runs, frames are left out that follow the copy of a staging block, with any flags") {
  const FirstStream stream = first_stream_while_running(GENERATE(0u, kHeaderTailNotKillSafe), commit_word(1, 1));
  CHECK(stream.has_staging);
  CHECK(stream.sequence == 1);
  CHECK(stream.frames == 2);  // one was written since
}

TEST_CASE("All frames count while a private staging block is moved into the file") {
  const FirstStream stream = first_stream_while_running(kHeaderTailNotKillSafe, 0);
  CHECK_FALSE(stream.has_staging);
  CHECK(stream.frames == 3);
}

TEST_CASE("The trace of a running program is cut at the time of opening") {
  TraceBuilder trace;
  fill_as_running(trace);
  const TemporaryFile path;
  trace.write(path.path());

  SECTION("and the program has the trace mapped: running") {
    const int descriptor = ::open(path.path().c_str(), O_RDWR);
    void* const mapping = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    const TraceFile file(path.path());
    CHECK(file.recorder() == RecorderState::kRecording);
    CHECK(file.ended_by() == "running");
    CHECK(file.cut_ticks() >= 1'000'000);
    CHECK(file.cut_ticks() < 60'000'000'000);
    ::munmap(mapping, 4096);
  }
  SECTION("and it has not mapped the trace: it executed another program") {
    const TraceFile file(path.path());
    CHECK(file.recorder() == RecorderState::kExecuted);
    CHECK(file.ended_by() == "exec");
    CHECK(file.cut_ticks() == kNoCut);
  }
  SECTION("but it started at another time: the pid was reused") {
    ++trace.header.process_start;
    trace.write(path.path());
    CHECK(TraceFile(path.path()).recorder() == RecorderState::kGone);
  }
  SECTION("but the boot id or the pid namespace differs") {
    trace.header.boot_id[3] ^= 1;
    trace.write(path.path());
    CHECK(TraceFile(path.path()).recorder() == RecorderState::kGone);
    trace.header.boot_id[3] ^= 1;
    ++trace.header.pid_namespace;
    trace.write(path.path());
    CHECK(TraceFile(path.path()).recorder() == RecorderState::kGone);
  }
}
