// heapprof rss: which moment is printed, and as what. tests/unit/rss tests the lines themselves.
#include <catch2/catch.hpp>

#include <sstream>

#include "tests/support/snapshot_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHeap = 0x1000000;
constexpr std::uint64_t kMapping = 0x7f0000000000;

/// A heap of ten resident pages, mappings of 20 and 2, and a file of 5.
SnapshotBuilder snapshot(SnapshotReason reason, std::uint64_t at_ms) {
  SnapshotBuilder result;
  result.reason = reason;
  result.begin_ns = at_ms * kMs;
  result.end_ns = result.begin_ns + 100;
  result.statm_bytes = (reason == SnapshotReason::kExit ? 137 : 37) * kPage;
  result.mapping(kHeap, kHeap + 16 * kPage, "rw-p", "[heap]");
  result.mapping(0x2000000, 0x2000000 + 5 * kPage, "r--p", "/usr/lib/locale/archive");
  result.mapping(kMapping, kMapping + 22 * kPage, "rw-p");
  result.pages(kPresent, kHeap, kHeap + 10 * kPage);
  result.pages(kPresent, 0x2000000, 0x2000000 + 5 * kPage);
  result.pages(kPresent, kMapping, kMapping + 22 * kPage);
  return result;
}

/// At 10 ms a block of 8000 bytes, at 20 ms a snapshot, at 30 ms another block, at 60 ms a sample, and at 100 ms the
/// snapshot at the end.
class Recorded {
 public:
  explicit Recorded(bool with_snapshots = true) {
    TraceBuilder trace;
    const std::uint64_t start = trace.header.start_monotonic_ns;
    auto& main = trace.stream();
    main.thread(1, "main");
    main.module(2, "/opt/known/demo", "\x01", 0x400000, 0, 0x10000, true);
    main.node(1, 0, 2, 0x400100);
    main.node(2, 1, 2, 0x400200);
    main.node(3, 1, 2, 0x400300);
    main.add(Op::kMap, 5 * kMs, kMapping, 20 * kPage, 2, kMapAnonymous);
    main.add(Op::kMap, 6 * kMs, kMapping + 20 * kPage, 2 * kPage, 3, kMapAnonymous);
    main.alloc(10 * kMs, kHeap + 16, 8000, 2);
    main.sample(20 * kMs, start + 20 * kMs, 37 * kPage, 5 * kPage);
    main.text(TextKind::kMark, 0, 0, "loaded");
    if (with_snapshots) snapshot(SnapshotReason::kMark, 20).add_to(trace, main, 1);
    main.alloc(30 * kMs, kHeap + 16 + 8016, 8000, 3);
    main.sample(60 * kMs, start + 60 * kMs, 50 * kPage, 5 * kPage);
    main.alloc(99 * kMs, kHeap + 16 + 3 * 8016, 100, 3);
    if (with_snapshots) snapshot(SnapshotReason::kExit, 100).add_to(trace, main, 2);
    TraceBuilder::write_bytes(file_.path(), trace.bytes());
  }
  const std::string& path() const noexcept { return file_.path(); }

 private:
  TemporaryFile file_;
};

/// The bytes of a line.
std::uint64_t line(const Outcome& outcome, const std::string& name) {
  for (std::size_t i = 0; i < outcome.count("/lines"); ++i) {
    const std::string at = "/lines/" + std::to_string(i);
    if (outcome.at(at + "/name") == name) return outcome.number(at + "/bytes");
  }
  return kNoNumber;
}

std::uint64_t sum_of_lines(const Outcome& outcome) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < outcome.count("/lines"); ++i)
    sum += outcome.number("/lines/" + std::to_string(i) + "/bytes");
  return sum;
}

}  // namespace

TEST_CASE("rss prints the snapshot of the end, and others with --at") {
  const Recorded trace;
  const Outcome last = run({"rss", trace.path(), "--json"});
  CHECK(last.status == 0);
  CHECK(last.at("/source") == "snapshot");
  CHECK(last.number("/snapshot/number") == 2);
  CHECK(last.at("/snapshot/reason") == "exit");
  CHECK(last.count("/snapshots") == 2);
  CHECK(last.number("/rss_bytes") == 37 * kPage);
  CHECK(sum_of_lines(last) == 37 * kPage);
  CHECK(line(last, "requested") == 16'100);
  CHECK(line(last, "mmap") == 22 * kPage);
  CHECK(line(last, "files") == 5 * kPage);
  CHECK(last.number("/outside/not_resident_bytes") == 0);
  CHECK(last.number("/lines/6/children/0/bytes") == 20 * kPage);
  CHECK(last.at("/lines/6/children/0/name") == "demo+0x400200");
  CHECK(last.count("/lines/6/children/0/stack") == 2);

  for (const char* const at : {"0.02", "15ms", "20%"}) {
    INFO(at);
    const Outcome first = run({"rss", trace.path(), "--json", "--at", at});
    CHECK(first.number("/snapshot/number") == 1);
    CHECK(line(first, "requested") == 8'000);
    CHECK(first.number("/at_ns") == 20 * kMs + 100);
  }
}

TEST_CASE("between snapshots, rss estimates from the last sample") {
  const Recorded trace;
  const Outcome outcome = run({"rss", trace.path(), "--json", "--at", "0.07"});
  CHECK(outcome.status == 0);
  CHECK(outcome.at("/source") == "sample");
  CHECK(outcome.at("/snapshot") == "null");
  CHECK(outcome.number("/at_ns") == 70 * kMs);
  CHECK(outcome.number("/sampled_ns") == 60 * kMs);
  CHECK(outcome.number("/rss_bytes") == 50 * kPage);
  CHECK(sum_of_lines(outcome) == 50 * kPage);
  CHECK(line(outcome, "requested") == 16'000);
  CHECK(line(outcome, "mmap") == 22 * kPage);
  CHECK(line(outcome, "files") == 5 * kPage);
  CHECK(outcome.at("/outside/swapped_bytes") == "null");
  const Outcome text = run({"rss", trace.path(), "--at", "0.07"});
  CHECK(text.out.find("the lines are estimated") != std::string::npos);

  const Outcome none = run({"rss", Recorded(false).path(), "--json"});
  CHECK(none.at("/source") == "sample");
  CHECK(none.number("/sampled_ns") == 60 * kMs);
  CHECK(none.number("/at_ns") == 99 * kMs);
  CHECK(line(none, "requested") == 16'100);
}

namespace {

/// A block of eight pages, a snapshot at 20 ms, a sample at 100 ms, the free of the block at 200 ms, an allocation at
/// 300 ms. It has no end, as that of a program that was killed.
class Killed {
 public:
  explicit Killed(SnapshotReason reason = SnapshotReason::kResidency) {
    TraceBuilder trace;
    const std::uint64_t start = trace.header.start_monotonic_ns;
    auto& main = trace.stream();
    main.thread(1, "main");
    main.alloc(10 * kMs, kHeap + 16, 8 * kPage);
    main.alloc(11 * kMs, kHeap + 9 * kPage, 100);
    snapshot(reason, 20).add_to(trace, main, 1);
    main.sample(100 * kMs, start + 100 * kMs, 40 * kPage, 5 * kPage);
    main.free(200 * kMs, kHeap + 16);
    main.alloc(300 * kMs, kHeap + 9 * kPage + 256, 100);
    TraceBuilder::write_bytes(file_.path(), trace.bytes());
  }
  const std::string& path() const noexcept { return file_.path(); }

 private:
  TemporaryFile file_;
};

/// The options of the command that `text` names between quotes.
std::vector<std::string> quoted_command(const std::string& text, const std::string& command) {
  const std::size_t at = text.find("'heapprof " + command);
  std::vector<std::string> words;
  if (at == std::string::npos) return words;
  const std::size_t begin = at + std::string("'heapprof ").size();
  std::istringstream in(text.substr(begin, text.find('\'', begin) - begin));
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace

TEST_CASE("without --at, rss prints the end, also of a program that was killed") {
  // Frees do not change resident memory, so that no snapshot follows them.
  const Killed trace;
  const Outcome end = run({"rss", trace.path(), "--json"});
  CHECK(end.at("/source") == "sample");
  CHECK(end.number("/at_ns") == 300 * kMs);
  CHECK(end.number("/sampled_ns") == 100 * kMs);
  CHECK(line(end, "requested") == 200);
  CHECK(line(end, "requested") == run({"report", trace.path(), "--json"}).number("/heap/leaked_bytes"));
  CHECK(sum_of_lines(end) == 40 * kPage);
  CHECK(run({"rss", trace.path(), "--json", "--at", "100%"}).out == end.out);

  const Outcome text = run({"rss", trace.path()});
  CHECK(text.out.find("at 300 ms: 160 KiB, as sampled at 100 ms (200 ms before)") != std::string::npos);
  CHECK(text.out.find("The last snapshot before it is 1, at 20.0 ms: --at 0.020000") != std::string::npos);
  CHECK(text.out.find("the live blocks have shrunk from 32.1 KiB to 200 B") != std::string::npos);
  CHECK(run({"rss", trace.path(), "--json", "--at", "0.020000"}).number("/snapshot/number") == 1);
}

TEST_CASE("a snapshot before an exec that failed is not the end of a program that went on") {
  const Killed trace(SnapshotReason::kExit);
  const Outcome end = run({"rss", trace.path(), "--json"});
  CHECK(end.at("/source") == "sample");
  CHECK(end.number("/at_ns") == 300 * kMs);
  CHECK(line(end, "requested") == 200);
  CHECK(line(run({"rss", trace.path(), "--json", "--at", "20ms"}), "requested") == 8 * kPage + 100);
  const Outcome before = run({"rss", trace.path(), "--at", "20ms"});
  CHECK(before.out.find("(snapshot 1, taken before an exit or exec)") != std::string::npos);
}

TEST_CASE("the blocks at the end are those of its snapshot, although events follow it") {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.alloc(10 * kMs, kHeap + 16, 8 * kPage);
  main.alloc(99 * kMs, kHeap + 9 * kPage, 100);
  snapshot(SnapshotReason::kExit, 100).add_to(trace, main, 1);
  main.free(105 * kMs, kHeap + 16);
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const Outcome end = run({"rss", path.path(), "--json"});
  CHECK(end.number("/snapshot/number") == 1);
  CHECK(end.number("/at_ns") == 100 * kMs + 100);
  CHECK(line(end, "requested") == 8 * kPage + 100);
  CHECK(run({"rss", path.path(), "--json", "--at", "100%"}).out == end.out);
}

TEST_CASE("the blocks of an estimate are those of the moment, not of the sample before it") {
  const Killed trace;
  CHECK(line(run({"rss", trace.path(), "--json", "--at", "150ms"}), "requested") == 8 * kPage + 100);
  const Outcome after = run({"rss", trace.path(), "--json", "--at", "250ms"});
  CHECK(after.number("/at_ns") == 250 * kMs);
  CHECK(line(after, "requested") == 100);
}

TEST_CASE("of a damaged trace, rss prints the last snapshot before the first missing event") {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.alloc(10 * kMs, kHeap + 16, 8000);
  snapshot(SnapshotReason::kResidency, 20).add_to(trace, main, 1);
  main.flush();
  main.alloc(30 * kMs, kHeap + 16 + 8016, 8000);
  main.flush();
  const std::size_t lost = trace.frame_offsets(0).back();
  main.alloc(60 * kMs, kHeap + 16 + 3 * 8016, 100);
  snapshot(SnapshotReason::kExit, 100).add_to(trace, main, 2);
  std::vector<std::uint8_t> bytes = trace.bytes();
  for (std::size_t i = 0; i < 40; ++i) bytes[lost + i] ^= 0x5a;
  const TemporaryFile damaged;
  TraceBuilder::write_bytes(damaged.path(), bytes);

  const Outcome outcome = run({"rss", damaged.path(), "--json"});
  CHECK(outcome.status == 1);
  CHECK(outcome.number("/snapshot/number") == 1);
  CHECK(line(outcome, "requested") == 8'000);
  CHECK(run({"rss", damaged.path()}).out.find("This is the last snapshot before that") != std::string::npos);
  const Outcome end = run({"rss", damaged.path(), "--at", "100%"});
  CHECK(end.out.find("missing from the trace: the memory of these is in wrong lines") != std::string::npos);
}

TEST_CASE("the command that a verdict names runs") {
  const Recorded trace;
  const Outcome first = run({"rss", trace.path(), "--json", "--at", "20ms"});
  std::vector<std::string> command = quoted_command(first.at("/verdict"), "rss");
  REQUIRE(command.size() > 2);
  REQUIRE(command[1] == "TRACE");
  command[1] = trace.path();
  const Outcome outcome = run(command);
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("Resident memory at 20.0 ms") != std::string::npos);
  CHECK(outcome.has_line({"demo+0x400300"}));
}

TEST_CASE("the list of snapshots has the largest, the one shown and the last") {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  for (std::uint64_t i = 1; i <= 12; ++i) {
    main.alloc(i * 100 * kMs, kHeap + i * 64, 8);
    SnapshotBuilder one = snapshot(i == 12 ? SnapshotReason::kExit : SnapshotReason::kResidency, i * 100);
    one.statm_bytes = (100 - i) * kPage;
    one.add_to(trace, main, i);
  }
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), trace.bytes());
  const Outcome outcome = run({"rss", path.path(), "--at", "1.0"});
  CHECK(outcome.out.find("Snapshots (--at TIME; 10 of 12, --top 0: all)") != std::string::npos);
  CHECK(outcome.has_line({"1.000", "change; shown above"}));
  CHECK(outcome.has_line({"1.200", "exit"}));
  CHECK_FALSE(outcome.has_line({"1.100", "change"}));
}

TEST_CASE("rss as text: the moment, a line for each figure, the verdict, the snapshots") {
  const Recorded trace;
  const Outcome outcome = run({"rss", trace.path()});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("148 KiB (snapshot 2, taken at the end)") != std::string::npos);
  CHECK(outcome.has_line({"88.0 KiB", "59.5%", "mappings", "(mmap)"}));
  CHECK(outcome.has_line({"80.0 KiB", "54.1%", "demo+0x400200"}));
  CHECK(outcome.has_line({"148.0 KiB", "100%", "resident"}));
  // The kernel counted 137 pages.
  CHECK(outcome.out.find("400 KiB more") != std::string::npos);
  CHECK(outcome.has_line({"0.020000", "148.0 KiB", "mark 'loaded'"}));
  CHECK(outcome.has_line({"0.100000", "548.0 KiB", "exit; shown above"}));

  const Outcome top = run({"rss", trace.path(), "--top", "1", "--stacks", "1"});
  CHECK(top.has_line({"8.0 KiB", "1 more (--top 0)"}));
}

TEST_CASE("timeline --resident stacks the lines at the snapshots, or what samples show") {
  const Recorded trace;
  const Outcome outcome = run({"timeline", trace.path(), "--resident", "--json"});
  CHECK(outcome.status == 0);
  CHECK(outcome.at("/title") == "Resident memory of an unknown program");
  CHECK(outcome.at("/samples/time_ns") == "[20000100,100000100]");
  CHECK(outcome.at("/samples/lines_bytes") == "[151552,151552]");
  CHECK(outcome.at("/sites/0/label") == "mappings");
  CHECK(outcome.at("/sites/0/name") == "mmap");
  CHECK(outcome.at("/sites/0/bytes") == "[90112,90112]");
  std::string labels;
  for (std::size_t i = 0; i < outcome.count("/sites"); ++i) {
    const std::string site = "/sites/" + std::to_string(i);
    labels += outcome.at(site + "/label") + ",";
    if (outcome.at(site + "/label") == "asked for") CHECK(outcome.at(site + "/bytes") == "[8000,16100]");
  }
  CHECK(labels.find("asked for,") != std::string::npos);
  CHECK(labels.find("files,") != std::string::npos);

  const Outcome samples = run({"timeline", Recorded(false).path(), "--resident", "--json"});
  CHECK(samples.at("/samples/lines_bytes") == "[151552,204800]");
  const Outcome csv = run({"timeline", trace.path(), "--resident", "--format", "csv"});
  CHECK(csv.out.starts_with("time_ns,lines_bytes,highest_bytes,rss_bytes,mmap,"));
  CHECK(samples.count("/sites") == 3);
  CHECK(samples.at("/sites/0/label") == "the rest");
  const Outcome text = run({"timeline", trace.path(), "--resident"});
  CHECK(text.out.find("2 of 2; heapprof rss TRACE --at TIME prints one") != std::string::npos);

  CHECK(run({"timeline", trace.path(), "--resident", "--thread", "1"}).status == 2);
  CHECK(run({"timeline", trace.path(), "--resident", "--format", "openmetrics"}).status == 2);
  const Outcome nothing = run({"timeline", KnownTrace(Variant::kDamaged).path(), "--resident"});
  CHECK(nothing.status == 1);
  CHECK(nothing.err.find("neither a snapshot nor a sample") != std::string::npos);
}

TEST_CASE("rss refuses what it cannot answer, and says what to do") {
  const Recorded trace;
  CHECK(run({"rss", trace.path(), "--json", "--at", "loaded"}).number("/snapshot/number") == 1);
  CHECK(run({"rss", trace.path(), "--json", "--at", "mark:loaded"}).number("/snapshot/number") == 1);
  const Outcome unknown = run({"rss", trace.path(), "--at", "saved"});
  CHECK(unknown.status == 2);
  CHECK(unknown.err.find("no snapshot was taken at a mark 'saved'; marks with a snapshot: 'loaded'") !=
        std::string::npos);
  const Outcome late = run({"rss", trace.path(), "--at", "5"});
  CHECK(late.status == 2);
  CHECK(late.out == "");
  CHECK(late.err.find("--at 5 is after the recording's end at 100 ms") != std::string::npos);
  const Outcome early = run({"rss", Recorded(false).path(), "--at", "0.001"});
  CHECK(early.status == 1);
  CHECK(early.err.find("neither a snapshot nor a sample") != std::string::npos);

  const TemporaryFile compacted;
  REQUIRE(run({"compact", trace.path(), "-o", compacted.path()}).status == 0);
  const Outcome numbers = run({"rss", compacted.path()});
  CHECK(numbers.status == 1);
  CHECK(numbers.err.find("compacted with --exact") != std::string::npos);
  REQUIRE(run({"compact", "--exact", trace.path(), "-o", compacted.path()}).status == 0);
  CHECK(run({"rss", compacted.path(), "--json"}).at("/lines") == run({"rss", trace.path(), "--json"}).at("/lines"));
}

TEST_CASE("a verdict names what would be returned, or the next command") {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "\x01", 0x400000, 0, 0x10000, true);
  main.node(1, 0, 2, 0x400100);
  std::uint64_t time = 0;
  for (std::uint64_t page = 0; page < 10; ++page) main.alloc(++time, kHeap + page * kPage + 16, 4000, 1);
  for (std::uint64_t page = 2; page < 10; ++page) main.free(++time, kHeap + page * kPage + 16);
  snapshot(SnapshotReason::kExit, 1).add_to(trace, main, 1);
  const TemporaryFile freed;
  TraceBuilder::write_bytes(freed.path(), trace.bytes());
  CHECK(run({"rss", freed.path(), "--json"}).at("/verdict") ==
        "malloc_trim(0) would have returned 32.0 KiB (21.6%), since no live block kept it.");
}
