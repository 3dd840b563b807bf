#include "analyzer/launch/recorded_traces.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/checksum.h"

using namespace heapprof;
using namespace heapprof::launch;

namespace {

FileHeader header_of(const std::string& path) {
  FileHeader header;
  std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  return header;
}

class Traces {
 public:
  Traces() {
    char name[] = "/tmp/heapprof_trace_end_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    directory_ = name;
  }
  ~Traces() { std::filesystem::remove_all(directory_); }

  /// A trace of process 12, started at 34, that began at `start`.
  std::string make(const std::string& name, std::uint64_t start, EndKind end = EndKind::kNone,
                   void (*change)(FileHeader&) = nullptr) {
    FileHeader header{};
    std::memcpy(header.magic, kFileMagic, sizeof kFileMagic);
    header.version_major = kVersionMajor;
    header.file_id = start;
    header.pid = 12;
    header.process_start = 34;
    header.start_monotonic_ns = start;
    header.checksum = checksum(&header, offsetof(FileHeader, checksum));
    header.end_kind = end;
    std::strcpy(header.stop_reason, "kept");
    if (change != nullptr) change(header);
    const std::string path = directory_ + "/" + name;
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&header), sizeof header) << "tail";
    paths_.push_back(path);
    return path;
  }

  std::vector<RecordedTrace> find() { return traces_of(paths_, 12, 34); }
  /// Of all processes, in the order in which they were made.
  std::vector<RecordedTrace> all() {
    std::vector<RecordedTrace> result;
    for (const std::string& path : paths_) result.push_back({path, header_of(path)});
    return result;
  }

 private:
  std::string directory_;
  std::vector<std::string> paths_;
};

}  // namespace

TEST_CASE("only this process's own traces are found, oldest first") {
  Traces traces;
  const std::string second = traces.make("a", 200), first = traces.make("b", 100);
  traces.make("another pid", 1, EndKind::kNone, [](FileHeader& h) {
    h.pid = 13;
    h.checksum = checksum(&h, offsetof(FileHeader, checksum));
  });
  traces.make("an earlier process of that pid", 1, EndKind::kNone, [](FileHeader& h) {
    h.process_start = 33;
    h.checksum = checksum(&h, offsetof(FileHeader, checksum));
  });
  traces.make("damaged", 1, EndKind::kNone, [](FileHeader& h) { h.start_ticks = 1; });
  traces.make("a text", 1, EndKind::kNone, [](FileHeader& h) { std::memset(&h, 'x', sizeof h); });
  const auto found = traces.find();
  REQUIRE(found.size() == 2);
  CHECK(found[0].path == first);
  CHECK(found[1].path == second);
}

TEST_CASE("traces of children without an end were ended by exec if a later one is of the same process") {
  Traces traces;
  const auto begin_at_700 = [](FileHeader& h) {
    h.start_realtime_ns = 700;
    h.checksum = checksum(&h, offsetof(FileHeader, checksum));
  };
  const std::string last = traces.make("a", 400), stopped = traces.make("b", 300, EndKind::kStopped),
                    second = traces.make("c", 200, EndKind::kNone, begin_at_700), first = traces.make("d", 100);
  const std::string other = traces.make("another process", 50, EndKind::kNone, [](FileHeader& h) {
    h.process_start = 35;
    h.checksum = checksum(&h, offsetof(FileHeader, checksum));
  });
  // Unknown start times do not identify a process.
  const auto without_start = [](FileHeader& h) {
    h.process_start = 0;
    h.checksum = checksum(&h, offsetof(FileHeader, checksum));
  };
  const std::string unknown = traces.make("e", 10, EndKind::kNone, without_start);
  traces.make("f", 20, EndKind::kNone, without_start);
  auto found = traces.all();
  write_executions(found);
  CHECK(header_of(first).end_kind == EndKind::kExec);
  CHECK(header_of(first).end_realtime_ns == 700);
  CHECK(header_of(second).end_kind == EndKind::kExec);
  CHECK(header_of(stopped).end_kind == EndKind::kStopped);
  for (const std::string& path : {last, other, unknown}) CHECK(header_of(path).end_kind == EndKind::kNone);
}

TEST_CASE("the end is written if it was unknown, and nothing else is changed") {
  Traces traces;
  SECTION("killed") {
    const std::string path = traces.make("a", 1);
    auto found = traces.find();
    write_end(found, true, 9);
    FileHeader expected = found[0].header, now = header_of(path);
    CHECK(now.end_kind == EndKind::kSignal);
    CHECK(now.end_status == 9);
    CHECK(now.end_realtime_ns > 1'000'000'000);
    CHECK(std::string(now.stop_reason) == "kept");
    CHECK(std::memcmp(&expected, &now, sizeof now) == 0);
    CHECK(std::filesystem::file_size(path) == sizeof(FileHeader) + 4);
  }
  SECTION("killed after exit() was reached") {
    const std::string path = traces.make("a", 1, EndKind::kExit, [](FileHeader& h) { h.end_realtime_ns = 500; });
    auto found = traces.find();
    write_end(found, true, 9);
    CHECK(header_of(path).end_kind == EndKind::kExit);
    CHECK(header_of(path).end_realtime_ns == 500);
  }
  SECTION("exit and _exit") {
    for (const EndKind before : {EndKind::kNone, EndKind::kExit}) {
      const std::string path = traces.make("a", 1, before);
      auto found = traces_of({path}, 12, 34);
      write_end(found, false, 3);
      CHECK(header_of(path).end_kind == EndKind::kExit);
      CHECK(header_of(path).end_status == 3);
    }
  }
  SECTION("exit, whose time the recorder has written") {
    const std::string path = traces.make("a", 1, EndKind::kExit, [](FileHeader& h) { h.end_realtime_ns = 500; });
    auto found = traces.find();
    write_end(found, false, 3);
    CHECK(header_of(path).end_status == 3);
    CHECK(header_of(path).end_realtime_ns == 500);
  }
  SECTION("the recorder had stopped") {
    const std::string path = traces.make("a", 1, EndKind::kStopped);
    auto found = traces.find();
    write_end(found, false, 3);
    CHECK(header_of(path).end_kind == EndKind::kStopped);
    CHECK(header_of(path).end_status == 0);
  }
  SECTION("the process executed other programs before") {
    const auto begin_at_700 = [](FileHeader& h) {
      h.start_realtime_ns = 700;
      h.checksum = checksum(&h, offsetof(FileHeader, checksum));
    };
    const std::string first = traces.make("a", 1), second = traces.make("b", 2, EndKind::kStopped, begin_at_700),
                      last = traces.make("c", 3);
    auto found = traces.find();
    write_end(found, true, 15);
    CHECK(header_of(first).end_kind == EndKind::kExec);
    CHECK(header_of(first).end_realtime_ns == 700);  // when the next program began
    CHECK(header_of(second).end_kind == EndKind::kStopped);
    CHECK(header_of(last).end_kind == EndKind::kSignal);
  }
  SECTION("no trace at all") {
    std::vector<RecordedTrace> none;
    write_end(none, true, 9);
  }
}
