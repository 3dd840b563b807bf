// heapprof blocks: single blocks that are live at a moment, or left over.
#include <catch2/catch.hpp>

#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

/// The sizes in the JSON list, in its order.
std::vector<std::uint64_t> sizes_of(const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"blocks"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.emplace_back("--json");
  const Outcome blocks = run(arguments);
  CHECK(blocks.status == 0);
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < blocks.count("/blocks"); ++i)
    sizes.push_back(blocks.number("/blocks/" + std::to_string(i) + "/size_bytes"));
  return sizes;
}

using Sizes = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("blocks lists what was never freed, with the share of it") {
  const KnownTrace trace;
  const Outcome blocks = run({"blocks", trace.path()});
  CHECK(blocks.status == 0);
  CHECK(blocks.has_line({"Live at", "4.50 KiB in 2 blocks; shares are of this."}));
  CHECK(blocks.has_line({"4,096", "88.9%", "70.0 ms", "0x", "worker", kWorkName}));
  CHECK(blocks.has_line({"512", "11.1%", "30.0 ms", "0x", "main", kLoadName}));
  CHECK(blocks.out.find(" events.") == std::string::npos);  // events are not always counted
  CHECK(blocks.out.find("Their stacks") != std::string::npos);
}

TEST_CASE("blocks --live-at lists the blocks of a moment, and --at is the same") {
  const KnownTrace trace;
  for (const char* const option : {"--live-at", "--at"}) {
    CHECK(sizes_of({trace.path(), option, "30ms"}) == Sizes{kC, kB, kA});
    CHECK(sizes_of({trace.path(), option, "45ms"}) == Sizes{kC, kA});
    CHECK(sizes_of({trace.path(), option, "5ms"}).empty());
  }
  CHECK(run({"blocks", trace.path(), "--live-at", "30ms"}).has_line({"Live at 30.0 ms: 7.00 KiB in 3 blocks"}));
  const Outcome json = run({"blocks", trace.path(), "--live-at", "30ms", "--json"});
  CHECK(json.number("/at_ns") == 30 * kMs);
  CHECK(json.number("/blocks/1/age_ns") == 10 * kMs);
  CHECK(json.number("/blocks/1/allocated_ns") == 20 * kMs);
  CHECK(json.number("/total/bytes") == kPeakBytes);
}

TEST_CASE("blocks follows the selection, in a slice its own blocks, and with --live-at the older ones too") {
  const KnownTrace trace;
  CHECK(sizes_of({trace.path(), "--thread", "worker"}) == Sizes{kC});
  CHECK(sizes_of({trace.path(), "--max-size", "1K"}) == Sizes{kE});
  CHECK(sizes_of({trace.path(), "--function", "demo\\+0x200", "--live-at", "30ms"}) == Sizes{kA});
  CHECK(sizes_of({trace.path(), "--from", "15ms", "--to", "35ms"}) == Sizes{kC, kB});
  CHECK(sizes_of({trace.path(), "--from", "15ms", "--to", "35ms", "--live-at", "35ms"}) == Sizes{kC, kB, kA});
  CHECK(sizes_of({trace.path(), "--live-at", "30ms", "--max-lifetime", "25ms"}) == Sizes{kB});
  CHECK(sizes_of({trace.path(), "--live-at", "30ms", "--freed", "no"}) == Sizes{kC});
  CHECK(sizes_of({trace.path(), "--live-at", "30ms", "--to", "45ms", "--freed", "no"}) == Sizes{kC, kA});
  CHECK(sizes_of({trace.path(), "--cost", "peak", "--to", "45ms", "--freed", "no"}) == Sizes{kC, kA});
  CHECK(run({"blocks", trace.path(), "--from", "50ms", "--live-at", "40ms"}).status == 2);
  CHECK(run({"blocks", trace.path(), "--live-at", "3s"}).status == 2);
}

TEST_CASE("--to peak ends between events of one time, also where the blocks have their own peak at another time") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.alloc(10 * kMs, 0xa000, 50);
  main.alloc(10 * kMs, 0xb000, 5);
  main.free(20 * kMs, 0xb000);
  main.alloc(30 * kMs, 0xc000, 1000);
  main.free(30 * kMs, 0xc000);
  main.free(30 * kMs, 0xa000);
  main.flush();
  const TemporaryFile trace;
  builder.write(trace.path());
  CHECK(sizes_of({trace.path(), "--max-size", "60", "--to", "peak", "--cost", "peak"}) == Sizes{50, 5});
  CHECK(sizes_of({trace.path(), "--max-size", "60", "--to", "peak", "--cost", "peak", "--freed", "no"}) == Sizes{50});
}

TEST_CASE("blocks sorts and pages, and says what the page leaves out") {
  const KnownTrace trace;
  CHECK(sizes_of({trace.path(), "--live-at", "30ms", "--sort", "age"}) == Sizes{kA, kB, kC});
  CHECK(sizes_of({trace.path(), "--live-at", "30ms", "--top", "2"}) == Sizes{kC, kB});
  CHECK(sizes_of({trace.path(), "--live-at", "30ms", "--top", "2", "--skip", "2"}) == Sizes{kA});
  const Outcome first = run({"blocks", trace.path(), "--live-at", "30ms", "--top", "2"});
  CHECK(first.has_line({"Blocks 1 to 2 of 3, largest first"}));
  CHECK(first.has_line({"+1 more, 1.00 KiB; --skip 2 prints the next; --top 0 prints all"}));
  const Outcome last = run({"blocks", trace.path(), "--live-at", "30ms", "--skip", "2"});
  CHECK(last.has_line({"+2 more, 6.00 KiB before these"}));
  CHECK(run({"blocks", trace.path(), "--skip", "7"}).has_line({"no block after the first 7"}));
  CHECK(run({"blocks", trace.path(), "--sort", "color"}).status == 2);
}

TEST_CASE("each stack of the list is in the JSON once") {
  const KnownTrace trace;
  const Outcome blocks = run({"blocks", trace.path(), "--live-at", "75ms", "--json"});
  CHECK(blocks.count("/blocks") == 2);
  CHECK(blocks.count("/stacks") == 2);
  const std::uint64_t frame = blocks.number("/stacks/1/frames/0");
  CHECK(blocks.at("/frames/" + std::to_string(frame) + "/module").find("demo") != std::string::npos);
  CHECK(blocks.at("/blocks/1/name") == kLoadName);
}

TEST_CASE("blocks writes CSV") {
  const KnownTrace trace;
  const Outcome blocks = run({"blocks", trace.path(), "--csv"});
  CHECK(blocks.out.starts_with("address,size_bytes,allocated_ns,age_ns,tid,thread,name,file,line,module,origin\n"));
  CHECK(blocks.has_line({",4096,30000000,70000000,4243,worker,libwork.so+0x400,,,/opt/known/libwork.so,"}));
  CHECK(run({"blocks", trace.path(), "--csv", "--json"}).status == 2);
}

TEST_CASE("the blocks of a compacted trace have numbers instead of addresses") {
  const KnownTrace trace;
  const TemporaryFile compacted;
  REQUIRE(run({"compact", trace.path(), "-o", compacted.path()}).status == 0);
  CHECK(sizes_of({compacted.path(), "--live-at", "30ms"}) == Sizes{kC, kB, kA});
  CHECK(run({"blocks", compacted.path(), "--json"}).at("/blocks/0/address") == "null");
  CHECK(run({"blocks", compacted.path()}).has_line({"4,096", "#", kWorkName}));
}

TEST_CASE("blocks of a recording without any says so") {
  const KnownTrace trace(Variant::kEmpty);
  const Outcome blocks = run({"blocks", trace.path()});
  CHECK(blocks.status == 0);
  CHECK(blocks.has_line({": 0 B in 0 blocks."}));
  CHECK(run({"blocks", KnownTrace().path(), "--function", "nowhere"}).err.find("matches nothing") !=
        std::string::npos);
}
