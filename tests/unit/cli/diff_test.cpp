// heapprof diff: what changed from one recording to another.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("diff --json has the totals of both, and each stack's change") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);
  const Outcome diff = run({"diff", before.path(), after.path(), "--json"});
  CHECK(diff.status == 0);
  CHECK(diff.at("/before/trace") == before.path());
  CHECK(diff.number("/before/peak_bytes") == kPeakBytes);
  CHECK(diff.number("/before/leaked_bytes") == kLeakedBytes);
  CHECK(diff.number("/before/temporary_allocations") == kTemporary);
  CHECK(diff.at("/after/trace") == after.path());
  CHECK(diff.number("/after/peak_bytes") == 2 * kPeakBytes);
  CHECK(diff.number("/after/allocated_bytes") == 2 * kAllocatedBytes);
  CHECK(diff.number("/after/allocations") == kAllocations);
  CHECK(diff.number("/changed_stacks") == 3);
  REQUIRE(diff.count("/top") == 3);
  CHECK(diff.number("/top/0/bytes") == kC);
  CHECK(diff.number("/top/0/bytes_before") == kC);
  CHECK(diff.number("/top/0/bytes_after") == 2 * kC);
  CHECK(diff.number("/top/0/blocks") == 0);
  CHECK(diff.at("/top/0/stack/0/function") == kWorkName);
  CHECK(diff.number("/top/2/bytes") == kA);
}

TEST_CASE("the changes of the reverse comparison are negative") {
  const KnownTrace large(Variant::kTwice);
  const KnownTrace small;
  const Outcome diff = run({"diff", large.path(), small.path(), "--json", "--top", "1"});
  CHECK(diff.at("/top/0/bytes") == "-" + std::to_string(kC));
  CHECK(diff.number("/changed_stacks") == 3);
  CHECK(diff.count("/top") == 1);
}

TEST_CASE("a stack of only one recording changed by all its bytes") {
  const KnownTrace nothing(Variant::kEmpty);
  const KnownTrace trace;
  const Outcome diff = run({"diff", nothing.path(), trace.path(), "--json", "--cost", "allocations"});
  CHECK(diff.number("/before/allocations") == 0);
  REQUIRE(diff.count("/top") == 3);
  CHECK(diff.number("/top/0/blocks_before") == 0);
  CHECK(diff.number("/top/0/blocks") == 2);
  CHECK(diff.number("/top/2/blocks") == 1);
}

TEST_CASE("a recording does not differ from itself") {
  const KnownTrace trace;
  const Outcome diff = run({"diff", trace.path(), trace.path(), "--json"});
  CHECK(diff.status == 0);
  CHECK(diff.number("/changed_stacks") == 0);
  CHECK(diff.at("/top") == "[]");
  CHECK(run({"diff", trace.path(), trace.path()}).has_line({"peak", "7.00 KiB", "7.00 KiB", "same"}));
}

TEST_CASE("diff prints the same figures as text") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);
  const Outcome diff = run({"diff", before.path(), after.path()});
  CHECK(diff.has_line({"peak", "7.00 KiB", "14.0 KiB", "+7.00 KiB", "+100.0%"}));
  CHECK(diff.has_line({"leaked", "4.50 KiB", "9.00 KiB", "+4.50 KiB", "+100.0%"}));
  CHECK(diff.has_line({"allocations", "5", "5", "same"}));
  CHECK(diff.has_line({"1", "+4.00 KiB", "4.00 KiB in 1 block before", "8.00 KiB in 1 block after"}));
  CHECK(diff.has_line({kWorkName}));
}

TEST_CASE("diff draws a flame graph, and folded text with both values") {
  const KnownTrace before;
  const KnownTrace after(Variant::kTwice);
  const Outcome folded = run({"diff", before.path(), after.path(), "--format", "folded"});
  CHECK(folded.has_line({std::string(kMainName) + ";" + kLoadName + " 1024 2048"}));
  CHECK(folded.has_line({std::string(kWorkName) + " 4096 8192"}));
  CHECK(run({"diff", before.path(), after.path(), "--format", "svg"}).out.find("</svg>") != std::string::npos);
  CHECK(run({"diff", before.path(), after.path(), "--format", "svg", "--json"}).status == 2);
}

TEST_CASE("diff needs two recordings, and names a damaged one") {
  const KnownTrace trace;
  const KnownTrace damaged(Variant::kDamaged);
  CHECK(run({"diff", trace.path(), kNoFile}).status == 1);
  CHECK(run({"diff", kNoFile, trace.path()}).status == 1);
  const Outcome first = run({"diff", damaged.path(), trace.path(), "--json"});
  CHECK(first.status == 1);
  CHECK(first.err.find(damaged.path()) != std::string::npos);
  CHECK(first.number("/after/peak_bytes") == kPeakBytes);
  CHECK(run({"diff", trace.path(), damaged.path()}).status == 1);
}

TEST_CASE("two moments of one recording: what is new, what was freed, and the net difference") {
  const KnownTrace trace;
  // A and B are live at 25 ms, C at 65 ms; D was allocated and freed in between.
  const std::string before = trace.path() + "@25ms";
  const std::string after = trace.path() + "@65%";
  const Outcome diff = run({"diff", before, after, "--json", "--survivors"});
  INFO(diff.err);
  CHECK(diff.status == 0);
  CHECK(diff.number("/before/at_ns") == 25 * kMs);
  CHECK(diff.number("/before/live_bytes") == kA + kB);
  CHECK(diff.number("/before/live_blocks") == 2);
  CHECK(diff.at("/after/moment") == "65%");
  CHECK(diff.number("/after/at_ns") == 65 * kMs);
  CHECK(diff.number("/after/live_bytes") == kC);
  CHECK(diff.number("/total/new_bytes") == kC);
  CHECK(diff.number("/total/new_blocks") == 1);
  CHECK(diff.number("/total/freed_bytes") == kA + kB);
  CHECK(diff.number("/total/freed_blocks") == 2);
  CHECK(diff.at("/total/bytes") == std::to_string(kC - kA - kB));
  CHECK(diff.at("/total/blocks") == "-1");
  CHECK(diff.number("/total/survivor_bytes") == kC);
  CHECK(diff.number("/survivors_ns") == 100 * kMs);
  REQUIRE(diff.count("/sites") == 3);
  CHECK(diff.at("/sites/0/name") == kWorkName);
  CHECK(diff.number("/sites/0/bytes") == kC);
  CHECK(diff.at("/sites/1/bytes") == "-" + std::to_string(kB));  // the larger change
  CHECK(diff.at("/sites/2/bytes") == "-" + std::to_string(kA));
  CHECK(diff.number("/changed_stacks") == 3);
  CHECK(diff.at("/top/0/stack/0/module") == "/opt/known/libwork.so");
  CHECK(diff.number("/top/0/new_bytes") == kC);

  const Outcome text = run({"diff", before, after, "--survivors"});
  CHECK(text.has_line({"From 25.0 ms to 65.0 ms (65%) of ", trace.path()}));
  CHECK(text.has_line({"new", "4.00 KiB", "in 1 block, allocated after 25.0 ms, live at 65.0 ms"}));
  CHECK(text.has_line({"freed", "3.00 KiB", "in 2 blocks, of those live at 25.0 ms"}));
  CHECK(text.has_line({"net", "+1.00 KiB", "-1 block"}));
  CHECK(text.has_line({"left", "4.00 KiB", "in 1 block, of the new ones, still live at the end"}));
  CHECK(text.has_line({"1", "+4.00 KiB", "4.00 KiB", "libwork.so"}));
}

TEST_CASE("the first and the last moment of a recording are start and end") {
  const KnownTrace trace;
  const Outcome diff = run({"diff", trace.path() + "@start", trace.path() + "@end", "--json"});
  CHECK(diff.number("/before/live_bytes") == 0);
  CHECK(diff.number("/total/new_bytes") == kLeakedBytes);
  CHECK(diff.at("/survivors_ns") == "null");
  const Outcome same = run({"diff", trace.path() + "@end", trace.path() + "@end"});
  CHECK(same.status == 0);
  CHECK(same.has_line({"none"}));
}

TEST_CASE("a block that gets the address of another one at the time of the peak is new") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(kMainTid, "main");
  main.module(2, "/opt/known/demo", "\x01\x23", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x200);
  main.node(2, 0, 2, 0x300);
  main.alloc(10 * kMs, 0xa000, kA, 1);
  main.alloc(20 * kMs, 0xb000, kB, 1);  // the peak
  main.free(20 * kMs, 0xb000);
  main.alloc(20 * kMs, 0xb000, kB - 1, 2);
  main.sample(100 * kMs, builder.header.start_monotonic_ns + 100 * kMs, kResidentBytes);
  const TemporaryFile trace;
  builder.write(trace.path());
  const std::string peak = trace.path() + "@peak";
  const std::string end = trace.path() + "@end";

  const Outcome diff = run({"diff", peak, end, "--json"});
  INFO(diff.err);
  CHECK(diff.number("/before/live_bytes") == kA + kB);
  CHECK(diff.number("/after/live_bytes") == kA + kB - 1);
  CHECK(diff.number("/total/new_bytes") == kB - 1);
  CHECK(diff.number("/total/new_blocks") == 1);
  CHECK(diff.number("/total/freed_bytes") == kB);
  CHECK(diff.number("/total/freed_blocks") == 1);
  REQUIRE(diff.count("/sites") == 2);
  CHECK(diff.at("/sites/0/name") == kLoadName);
  CHECK(diff.number("/sites/0/freed_blocks") == 1);
  CHECK(diff.at("/sites/1/name") == kParseName);
  CHECK(diff.number("/sites/1/new_blocks") == 1);
  CHECK(diff.number("/sites/1/freed_bytes") == 0);
  CHECK(diff.number("/sites/1/freed_blocks") == 0);

  // As the second moment: the block is newer, so it is no survivor.
  const Outcome left = run({"diff", trace.path() + "@start", peak, "--json", "--survivors"});
  CHECK(left.number("/total/new_bytes") == kA + kB);
  CHECK(left.number("/total/survivor_bytes") == kA);
  CHECK(run({"diff", peak, peak, "--json", "--survivors"}).number("/total/survivor_bytes") == 0);
}

TEST_CASE("moments of two recordings compare what is live at them") {
  const KnownTrace one;
  const KnownTrace twice(Variant::kTwice);
  const Outcome diff = run({"diff", one.path() + "@25ms", twice.path() + "@65ms", "--json"});
  INFO(diff.err);
  CHECK(diff.number("/before/live_bytes") == kA + kB);
  CHECK(diff.number("/after/live_bytes") == 2 * kC);
  CHECK(diff.number("/top/0/bytes") == 2 * kC);
  CHECK(run({"diff", one.path() + "@25ms", twice.path()}).has_line({"to ", twice.path(), " at 100 ms"}));
  CHECK(run({"diff", one.path() + "@25ms", one.path() + "@65ms", "--format", "folded"})
            .has_line({std::string(kWorkName) + " 0 4096"}));
}

TEST_CASE("a file whose whole name is TRACE@TIME has priority") {
  const KnownTrace trace;
  const std::string named = trace.path() + "@25ms";
  std::filesystem::copy_file(KnownTrace(Variant::kTwice).path(), named);
  const Outcome diff = run({"diff", trace.path(), named, "--json"});
  std::filesystem::remove(named);
  CHECK(diff.at("/after/trace") == named);
  CHECK(diff.number("/after/peak_bytes") == 2 * kPeakBytes);
}

TEST_CASE("moments that cannot be compared are a wrong command line") {
  const KnownTrace trace;
  const KnownTrace other;
  const auto error = [&](const std::string& before, const std::string& after,
                         const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments = {"diff", before, after};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome diff = run(arguments);
    INFO(before << ' ' << after << ' ' << diff.err);
    CHECK(diff.status == 2);
    CHECK(diff.out == "");
    return diff.err;
  };
  const std::string path = trace.path();
  CHECK(error(path + "@65ms", path + "@25ms").find("@65ms is after @25ms; give the earlier moment first") !=
        std::string::npos);
  CHECK(error(path + "@10", path + "@25ms").find("@10 is after the last known event at 100ms") != std::string::npos);
  CHECK(error(path + "@25ms", path + "@10").find("@10 is after") != std::string::npos);
  CHECK(error(path + "@1x", path).find("invalid time '1x'") != std::string::npos);
  CHECK(error(path + "@load begins", path).find("no mark has the text 'load begins'") != std::string::npos);
  error(path + "@65ms", path + "@25ms", {"--format", "folded"});
  error(path + "@25ms", path + "@65ms", {"--from", "10ms"});
  error(path + "@25ms", path + "@65ms", {"--cost", "peak"});
  error(path + "@25ms", path + "@65ms", {"--survivors", "60ms"});
  error(path + "@25ms", path + "@65ms", {"--kind", "mmap"});
  error(path + "@25ms", other.path() + "@65ms", {"--survivors"});
  error(path, other.path(), {"--sort", "new"});
}
