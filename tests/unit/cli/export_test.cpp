// heapprof export: every format has the figures of the recording. tests/consumers reads them with the programs that
// they are for.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

Outcome exported(const char* format, const KnownTrace& trace, std::vector<std::string> more = {}) {
  std::vector<std::string> arguments = {"export", format, trace.path(), "-o", "-"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run(arguments);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("export ndjson has a row for every event, in order of time") {
  const KnownTrace trace;
  const Outcome outcome = exported("ndjson", trace);
  CHECK(outcome.status == 0);
  std::uint64_t allocated = 0, freed = 0, allocations = 0, frees = 0, before = 0;
  for (const std::string& row : lines_of(outcome.out)) {
    const auto figure = [&](const char* name) { return Outcome{0, row, ""}.number(name); };
    const std::string kind = json_at(row, "/event");
    CHECK(figure("/time_ns") >= before);
    before = figure("/time_ns");
    (kind == "alloc" ? allocations : frees) += 1;
    (kind == "alloc" ? allocated : freed) += figure("/size");
  }
  CHECK(allocations == kAllocations);
  CHECK(allocated == kAllocatedBytes);
  CHECK(frees == kFrees);
  CHECK(freed == kA + kB + kD);
}

TEST_CASE("the row of a free has the thread that allocated the block") {
  const KnownTrace trace;
  std::vector<std::uint64_t> threads;
  for (const std::string& row : lines_of(exported("ndjson", trace).out))
    if (json_at(row, "/event") == "free") threads.push_back(Outcome{0, row, ""}.number("/tid"));
  CHECK(threads == std::vector<std::uint64_t>{kMainTid, kMainTid, kMainTid});  // B, A and D; the worker freed A
}

TEST_CASE("export csv --rows blocks and stacks has the same leaks") {
  const KnownTrace trace;
  const auto blocks = lines_of(exported("csv", trace, {"--rows", "blocks"}).out);
  CHECK(blocks.size() == 1 + kLeakedBlocks);
  const auto stacks = lines_of(exported("ndjson", trace, {"--rows", "stacks"}).out);
  CHECK(stacks.size() == 3);
  std::uint64_t leaked = 0, allocated = 0;
  for (const std::string& row : stacks) {
    leaked += Outcome{0, row, ""}.number("/leaked_bytes");
    allocated += Outcome{0, row, ""}.number("/allocated_bytes");
  }
  CHECK(leaked == kLeakedBytes);
  CHECK(allocated == kAllocatedBytes);
  CHECK(exported("csv", trace, {"--rows", "columns"}).status == 2);
}

TEST_CASE("export --rows pinned has what the live blocks of each stack keep") {
  const KnownTrace trace;
  const auto rows = lines_of(exported("ndjson", trace, {"--rows", "pinned"}).out);
  REQUIRE(rows.size() == 2);
  std::uint64_t pinned = 0, live = 0, blocks = 0;
  for (const std::string& row : rows) {
    const Outcome one{0, row, ""};
    pinned += one.number("/alone_bytes") + one.number("/shared_bytes");
    live += one.number("/live_bytes");
    blocks += one.number("/blocks");
    CHECK(one.count("/frames") != 0);
  }
  CHECK(live == kLeakedBytes);
  CHECK(blocks == kLeakedBlocks);
  CHECK(pinned == run({"pins", trace.path(), "--json"}).number("/pinned_bytes"));
  const auto csv = lines_of(exported("csv", trace, {"--rows", "pinned", "--to", "35ms"}).out);
  CHECK(csv.size() == 1 + kPeakBlocks);
  CHECK(csv.front() == "stack,alone_bytes,shared_bytes,overhead_bytes,live_bytes,usable_bytes,blocks,frames");
  CHECK(exported("csv", trace, {"--rows", "pinned", "--min-size", "10"}).status == 2);
}

TEST_CASE("export rows --per-stack has a row for each stack, whose sums are the totals") {
  const KnownTrace trace;
  const Outcome outcome =
      exported("rows", trace, {"--per-stack", "--label", "host=h1", "--label", "note=a\"b,c\xc3\xb6"});
  CHECK(outcome.status == 0);
  const auto rows = lines_of(outcome.out);
  REQUIRE(rows.size() == 3);
  CHECK(json_at(rows[0], "/frames") == "[\"" + std::string(kWorkName) + "\"]");
  CHECK(json_at(rows[1], "/frames") == "[\"" + std::string(kParseName) + "\",\"" + kMainName + "\"]");
  CHECK(json_at(rows[2], "/frames") == "[\"" + std::string(kLoadName) + "\",\"" + kMainName + "\"]");
  // XXH3 of "libwork.so+0x400\n"
  CHECK(json_at(rows[0], "/stack_hash") == "ec7fe7f17b045911");
  std::uint64_t peak = 0, leaked = 0, allocated = 0, allocations = 0, temporary = 0;
  for (const std::string& row : rows) {
    const Outcome one{0, row, ""};
    CHECK(one.at("/kind") == "stack");
    CHECK(one.at("/host") == "h1");
    CHECK(one.at("/labels") == "{\"host\":\"h1\",\"note\":\"a\\\"b,c\xc3\xb6\"}");
    CHECK(one.at("/program") == "/opt/known/demo");
    CHECK(one.at("/build_id") == "0123");
    CHECK(one.number("/duration_ns") == kDurationNs);
    CHECK(one.number("/stacks") == 1);
    peak += one.number("/peak_bytes");
    leaked += one.number("/leaked_bytes");
    allocated += one.number("/allocated_bytes");
    allocations += one.number("/allocations");
    temporary += one.number("/temporary_allocations");
  }
  CHECK(peak == kPeakBytes);
  CHECK(leaked == kLeakedBytes);
  CHECK(allocated == kAllocatedBytes);
  CHECK(allocations == kAllocations);
  CHECK(temporary == kTemporary);
}

TEST_CASE("export rows --top keeps the largest stacks of each kind of bytes; the others are one row") {
  const KnownTrace trace;
  const auto rows = lines_of(exported("rows", trace, {"--per-stack", "--top", "1"}).out);
  // work has most at the peak, most that leaks, and most that was allocated.
  REQUIRE(rows.size() == 2);
  CHECK(json_at(rows[1], "/kind") == "rest");
  CHECK(json_at(rows[1], "/stack_hash") == "null");
  CHECK(json_at(rows[1], "/frames") == "[]");
  CHECK(json_at(rows[1], "/stacks") == "2");
  CHECK(json_at(rows[1], "/allocated_bytes") == std::to_string(kAllocatedBytes - kC));
  CHECK(json_at(rows[1], "/leaked_bytes") == std::to_string(kLeakedBytes - kC));
}

TEST_CASE("export rows of a recording without allocations is one row, so that the recording is counted") {
  const auto rows = lines_of(exported("rows", KnownTrace(Variant::kEmpty), {"--per-stack"}).out);
  REQUIRE(rows.size() == 1);
  CHECK(json_at(rows[0], "/kind") == "rest");
  CHECK(json_at(rows[0], "/stacks") == "0");
  CHECK(json_at(rows[0], "/labels") == "{}");
}

TEST_CASE("export rows writes CSV by the name of the file") {
  const KnownTrace trace;
  const TemporaryFile file(".csv");
  CHECK(run({"export", "rows", "--per-stack", trace.path(), "-o", file.path()}).status == 0);
  const auto lines = lines_of(read_file(file.path()));
  REQUIRE(lines.size() == 4);
  CHECK(lines[0].rfind("format_version,recording,host,program,build_id,", 0) == 0);
  CHECK(lines[1].find(",\"[\"\"libwork.so+0x400\"\"]\",") != std::string::npos);
  CHECK(lines_of(exported("rows", trace, {"--per-stack", "--format", "csv"}).out).size() == 4);
}

TEST_CASE("export rows names the option that is missing, and labels that are wrong") {
  const KnownTrace trace;
  CHECK(exported("rows", trace).err.find("--per-stack") != std::string::npos);
  CHECK(exported("rows", trace).status == 2);
  for (const char* label : {"nonsense", "a b=c", "a=\n", "a=\xff"}) {
    const Outcome outcome = exported("rows", trace, {"--per-stack", "--label", label});
    CHECK(outcome.status == 2);
    CHECK(outcome.err.find("for --label; ") != std::string::npos);
  }
}

TEST_CASE("export rows of a damaged recording has what could be read, and says that it is not complete") {
  const Outcome outcome = exported("rows", KnownTrace(Variant::kDamaged), {"--per-stack"});
  CHECK(outcome.status == 1);
  const auto rows = lines_of(outcome.out);
  REQUIRE(!rows.empty());
  CHECK(json_at(rows[0], "/complete") == "false");
}

TEST_CASE("export dhat has lives whose sum has more than 64 bits of nanoseconds") {
  constexpr std::uint64_t kLifeNs = 8'000'000'000'000'000'000;
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);
  for (const std::uint64_t address : {0xa000u, 0xb000u, 0xc000u}) main.alloc(1 * kMs, address, kA, 1);
  for (const std::uint64_t address : {0xa000u, 0xb000u, 0xc000u}) main.free(1 * kMs + kLifeNs, address);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome dhat = run({"export", "dhat", trace.path(), "-o", "-"});
  REQUIRE(dhat.count("/pps") == 1);
  CHECK(dhat.number("/pps/0/tl") == 3 * (kLifeNs / 1'000));
}

TEST_CASE("the sums of export dhat equal the totals") {
  const KnownTrace trace;
  const Outcome dhat = exported("dhat", trace);
  REQUIRE(dhat.count("/pps") == 3);
  std::uint64_t allocated = 0, peak = 0, leaked = 0;
  for (int i = 0; i < 3; ++i) {
    const std::string point = "/pps/" + std::to_string(i);
    allocated += dhat.number(point + "/tb");
    peak += dhat.number(point + "/gb");
    leaked += dhat.number(point + "/eb");
  }
  CHECK(allocated == kAllocatedBytes);
  CHECK(peak == kPeakBytes);
  CHECK(leaked == kLeakedBytes);
}

TEST_CASE("export speedscope has a profile for each cost with its total") {
  const KnownTrace trace;
  const Outcome speedscope = exported("speedscope", trace);
  REQUIRE(speedscope.count("/profiles") > 1);
  std::vector<std::uint64_t> totals;
  for (std::size_t i = 0; i < speedscope.count("/profiles"); ++i)
    totals.push_back(speedscope.number("/profiles/" + std::to_string(i) + "/endValue"));
  for (const std::uint64_t total : {kPeakBytes, kLeakedBytes, kAllocatedBytes, kAllocations})
    CHECK(std::find(totals.begin(), totals.end(), total) != totals.end());
  CHECK(speedscope.count("/shared/frames") == 4);
}

TEST_CASE("export massif has the peak, and callgrind the totals") {
  const KnownTrace trace;
  CHECK(exported("massif", trace).has_line({"mem_heap_B=" + std::to_string(kPeakBytes)}));
  // Figures are in the order of their names: PeakBytes PeakBlocks LeakedBytes LeakedBlocks AllocatedBytes ...
  CHECK(exported("callgrind", trace)
            .has_line({std::to_string(kPeakBytes) + " 3 " + std::to_string(kLeakedBytes) + " 2 " +
                       std::to_string(kAllocatedBytes) + " 5 2"}));
}

TEST_CASE("export heaptrack has a line for every allocation and free") {
  const KnownTrace trace;
  const auto lines = lines_of(exported("heaptrack", trace).out);
  const auto begin_with = [&](const char* mark) {
    return static_cast<std::uint64_t>(
        std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.rfind(mark, 0) == 0; }));
  };
  CHECK(begin_with("+ ") == kAllocations);
  CHECK(begin_with("- ") == kFrees);
}

TEST_CASE("export heaptrack of a slice ends with the slice") {
  const KnownTrace trace;
  const auto last_time = [](const std::vector<std::string>& lines) {
    std::string last;
    for (const std::string& line : lines)
      if (line.rfind("c ", 0) == 0) last = line;
    return last;
  };
  // In milliseconds, hexadecimal.
  CHECK(last_time(lines_of(exported("heaptrack", trace).out)) == "c 64");
  CHECK(last_time(lines_of(exported("heaptrack", trace, {"--to", "35ms"}).out)) == "c 23");
}

TEST_CASE("export perfetto counts a mapping with a hole, which is live in two pieces, as never freed") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);
  main.add(Op::kMap, 1 * kMs, 0x10000, 0x3000, 1, kMapAnonymous);
  main.add(Op::kUnmapBegin, 2 * kMs, 0x11000, 0x1000);
  main.add(Op::kUnmapEnd, 3 * kMs);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome perfetto = run({"export", "perfetto", trace.path(), "--kind", "mmap", "-o", "-"});
  CHECK(perfetto.status == 0);
  CHECK(perfetto.out.find("malloc") != std::string::npos);
  // A number below 0 is the longest varint.
  CHECK(perfetto.out.find(std::string(9, '\xff') + '\x01') == std::string::npos);
}

TEST_CASE("export firefox is JSON, and pprof is compressed") {
  const KnownTrace trace;
  CHECK(exported("firefox", trace).at("/meta/product") != "(absent)");
  CHECK(exported("pprof", trace).out.substr(0, 2) == "\x1f\x8b");
}

TEST_CASE("a file whose name ends in .gz or .zst is compressed") {
  const KnownTrace trace;
  for (const auto& [ending, magic] : {std::pair(".csv.gz", "\x1f\x8b"), std::pair(".csv.zst", "\x28\xb5\x2f\xfd")}) {
    const TemporaryFile file(ending);
    CHECK(run({"export", "csv", trace.path(), "-o", file.path()}).status == 0);
    CHECK(read_file(file.path()).rfind(magic, 0) == 0);
  }
}

TEST_CASE("export needs a format and an output, and formats of blocks refuse mappings") {
  const KnownTrace trace;
  CHECK(run({"export"}).status == 2);
  CHECK(run({"export", "xml", trace.path(), "-o", "-"}).status == 2);
  CHECK(run({"export", "csv", trace.path()}).status == 2);
  for (const char* format : {"heaptrack", "dhat", "firefox", "csv"})
    CHECK(exported(format, trace, {"--kind", "mmap"}).status == 2);
  CHECK(exported("csv", trace, {"--kind", "mmap", "--rows", "stacks"}).status == 0);
}

TEST_CASE("rows of blocks without a live block are an empty table with a warning") {
  const KnownTrace trace;
  const Outcome outcome = exported("csv", trace, {"--rows", "blocks", "--max-lifetime", "1"});
  CHECK(lines_of(outcome.out).size() == 1);
  CHECK(outcome.err.find("no rows") != std::string::npos);
}
