// heapprof export: every format has the figures of the recording. tests/consumers reads them with the programs that
// they are for.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

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
