// heapprof pins: who keeps memory that could be returned.
#include <catch2/catch.hpp>

#include "tests/support/snapshot_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

constexpr std::uint64_t kPage = 4096, kHeap = 0x10000000;

/// Blocks of 24 bytes in pages of glibc's heap: demo+0x100 has one in each of 300 pages, demo+0x200 and demo+0x300
/// share 50 further pages, demo+0x400 has one page and part of one of demo+0x100.
void write_shared_pages(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  for (std::uint32_t node = 1; node <= 4; ++node) main.node(node, 0, 2, 0x100 * node);
  std::uint64_t time = 0;
  const auto allocate = [&](std::uint64_t page, std::uint64_t offset, std::uint32_t node) {
    main.alloc(time += kMs, kHeap + page * kPage + offset, 24, node);
  };
  for (std::uint64_t page = 0; page < 300; ++page) allocate(page, 0x10, 1);
  for (std::uint64_t page = 300; page < 350; ++page) {
    allocate(page, 0x10, 2);
    allocate(page, 0x110, 3);
  }
  allocate(0, 0x110, 4);
  allocate(350, 0x10, 4);
  trace.write(path);
}

}  // namespace

TEST_CASE("pins ends its table where groups explain nothing, and counts the rest") {
  const TemporaryFile trace;
  write_shared_pages(trace.path());
  const Outcome pins = run({"pins", trace.path()});
  CHECK(pins.status == 0);
  CHECK(pins.has_line({"1", "demo+0x100"}));
  CHECK(pins.has_line({"3", "demo+0x"}));
  CHECK(pins.has_line({"+1 more, with 5.95 KiB of overhead; --top 0 prints all"}));
  CHECK_FALSE(pins.has_line({"4", "demo+0x400"}));
  const Outcome all = run({"pins", trace.path(), "--top", "0"});
  CHECK(all.has_line({"4", "demo+0x400"}));
  CHECK(all.out.find("--top 0 prints all") == std::string::npos);
}

TEST_CASE("pins names companions only where much could be returned without their blocks") {
  const TemporaryFile trace;
  write_shared_pages(trace.path());
  const Outcome pins = run({"pins", trace.path(), "--top", "0"});
  CHECK(pins.has_line({"200 KiB that #2 shares, when the blocks of #3 go, too"}));
  CHECK(pins.has_line({"200 KiB that #3 shares, when the blocks of #2 go, too"}));
  // One page, which the block of demo+0x400 keeps, too.
  CHECK_FALSE(pins.has_line({"that #1 shares"}));
}

TEST_CASE("pins --json has companions with what they complete") {
  const TemporaryFile trace;
  write_shared_pages(trace.path());
  const Outcome pins = run({"pins", trace.path(), "--json"});
  CHECK(pins.count("/groups") == 4);
  CHECK(pins.number("/pinned_bytes") == 351 * kPage);
  CHECK(pins.at("/groups/0/name") == "demo+0x100");
  CHECK(pins.number("/groups/0/alone_bytes") == 299 * kPage);
  CHECK(pins.number("/groups/0/with_bytes/0") == kPage);
  CHECK(pins.number("/groups/1/alone_bytes") == 0);
  CHECK(pins.number("/groups/1/shared_bytes") == 25 * kPage);
  CHECK(pins.count("/groups/1/with") == 1);
  CHECK(pins.number("/groups/1/with_bytes/0") == 50 * kPage);
}

namespace {

/// One live block of 24 bytes, and behind it 300 pages whose blocks of 100 bytes were freed one by one: the free end
/// of glibc's heap. Of the process, 100 pages are resident, and 16 MiB are a mapping of demo+0x200.
void write_free_end(const std::string& path) {
  TraceBuilder trace;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  main.node(2, 0, 2, 0x200);
  std::uint64_t time = kMs;
  main.alloc(time, kHeap + 0x10, 24, 1);
  for (std::uint64_t page = 1; page <= 300; ++page) main.alloc(time += kMs, kHeap + page * kPage + 0x10, 100, 1);
  for (std::uint64_t page = 300; page >= 1; --page) main.free(time += kMs, kHeap + page * kPage + 0x10);
  main.add(heapprof::Op::kMap, time += kMs, 0x7f2000000000, 16 << 20, 2, heapprof::kMapAnonymous);
  time += kMs;
  main.sample(time, time, 110 * kPage, 10 * kPage);
  trace.write(path);
}

}  // namespace

TEST_CASE("pins counts the free end of a heap, as far as a sample shows it resident") {
  const TemporaryFile trace;
  write_free_end(trace.path());
  const Outcome json = run({"pins", trace.path(), "--json"});
  CHECK(json.number("/pinned_bytes") == kPage);
  CHECK(json.number("/returnable_bytes") == 300 * kPage);
  CHECK(json.at("/resident/source") == "sample");
  CHECK(json.number("/resident/returnable_bytes") == 99 * kPage);
  const Outcome text = run({"pins", trace.path()});
  CHECK(text.has_line({"returnable", "396 KiB", "estimated by resident memory at"}));
  CHECK(text.out.find("at most") == std::string::npos);
}

TEST_CASE("pins measures the end by a snapshot that is near, not by one that is 0.5% of an hour older") {
  constexpr std::uint64_t kSecond = 1'000 * kMs;
  TraceBuilder trace;
  const std::uint64_t start = trace.header.start_monotonic_ns;
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000, 0x10000, true);
  main.node(1, 0, 2, 0x100);
  main.alloc(kSecond, kHeap + 0x10, 24, 1);
  main.sample(3'000 * kSecond, start + 3'000 * kSecond, 110 * kPage, 10 * kPage);
  SnapshotBuilder snapshot;
  snapshot.reason = heapprof::SnapshotReason::kResidency;
  snapshot.begin_ns = 3'590 * kSecond;
  snapshot.end_ns = snapshot.begin_ns + 100;
  snapshot.mapping(kHeap, kHeap + 16 * kPage, "rw-p", "[heap]");
  snapshot.pages(heapprof::kPresent, kHeap, kHeap + 10 * kPage);
  snapshot.add_to(trace, main);
  main.alloc(3'600 * kSecond, kHeap + 0x110, 24, 1);
  const TemporaryFile path;
  trace.write(path.path());
  CHECK(run({"pins", path.path(), "--json"}).at("/resident/source") == "sample");
  CHECK(run({"pins", path.path(), "--json", "--at", "3590"}).at("/resident/source") == "snapshot");
}

TEST_CASE("pins suggests no work where little is pinned, and names what its figures do not include") {
  const TemporaryFile trace;
  write_free_end(trace.path());
  const Outcome pins = run({"pins", trace.path()});
  CHECK(pins.has_line({"Live blocks pin little here"}));
  CHECK(pins.out.find("Allocate the blocks of") == std::string::npos);
  CHECK(pins.has_line({"not included: 16.0 MiB that the program mapped itself", "demo+0x200"}));
}

TEST_CASE("pins prints each size in a unit that shows digits") {
  const TemporaryFile trace;
  write_shared_pages(trace.path());
  const Outcome pins = run({"pins", trace.path(), "--top", "0"});
  CHECK(pins.has_line({"4", "5.95 KiB", "4.00 KiB", "2.00 KiB", "48 B"}));
}
