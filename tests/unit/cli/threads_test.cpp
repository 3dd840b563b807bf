// heapprof threads: what each thread allocates, and cross-thread frees.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("threads --json counts for each thread the blocks freed by itself and by others") {
  const KnownTrace trace;
  const Outcome threads = run({"threads", trace.path(), "--json"});
  CHECK(threads.status == 0);
  CHECK(threads.number("/freed/blocks") == kFrees);
  CHECK(threads.number("/freed/bytes") == kA + kB + kD);
  CHECK(threads.number("/cross_thread_frees/blocks") == 1);
  CHECK(threads.number("/cross_thread_frees/bytes") == kA);
  REQUIRE(threads.count("/threads") == 2);
  const auto figures = [&](int thread, const char* which) {
    const std::string at = "/threads/" + std::to_string(thread) + "/" + which;
    return std::pair(threads.number(at + "/blocks"), threads.number(at + "/bytes"));
  };
  using Figures = std::pair<std::uint64_t, std::uint64_t>;
  CHECK(threads.number("/threads/0/allocations") == 4);
  CHECK(figures(0, "freed_by_itself") == Figures(2, kB + kD));
  CHECK(figures(0, "freed_by_others") == Figures(1, kA));
  CHECK(figures(0, "freed_of_others") == Figures(0, 0));
  CHECK(figures(0, "not_freed") == Figures(1, kE));
  CHECK(figures(1, "freed_by_itself") == Figures(0, 0));
  CHECK(figures(1, "freed_by_others") == Figures(0, 0));
  CHECK(figures(1, "freed_of_others") == Figures(1, kA));
  CHECK(figures(1, "not_freed") == Figures(1, kC));
}

TEST_CASE("threads --json has pairs of threads and call sites of cross-thread frees") {
  const KnownTrace trace;
  const Outcome threads = run({"threads", trace.path(), "--json"});
  REQUIRE(threads.count("/pairs") == 1);
  CHECK(threads.number("/pairs/0/allocated_by") == 0);
  CHECK(threads.number("/pairs/0/freed_by") == 1);
  CHECK(threads.number("/pairs/0/blocks") == 1);
  CHECK(threads.number("/pairs/0/bytes") == kA);
  REQUIRE(threads.count("/sites") == 1);
  CHECK(threads.number("/sites/0/bytes") == kA);
  CHECK(threads.number("/sites/0/site/offset") == 0x200);
}

TEST_CASE("threads prints the same figures as text") {
  const KnownTrace trace;
  const Outcome threads = run({"threads", trace.path()});
  CHECK(threads.has_line({"cross-thread", "33.3%", "1 of 3", "1.00 KiB"}));
  CHECK(threads.has_line({"4", "3.75 KiB", "2", "1", "0", "1", "main " + std::to_string(kMainTid)}));
  CHECK(threads.has_line({"1", "4.00 KiB", "0", "0", "1", "1", "worker " + std::to_string(kWorkerTid)}));
  CHECK(threads.has_line({"1", "1.00 KiB", "main", "worker"}));
  CHECK(threads.has_line({"1", "1.00 KiB", kLoadName}));
}

TEST_CASE("threads --thread counts the blocks of that thread, whichever thread frees them") {
  const KnownTrace trace;
  const Outcome threads = run({"threads", trace.path(), "--json", "--thread", std::to_string(kWorkerTid)});
  CHECK(threads.number("/freed/blocks") == 0);
  CHECK(threads.at("/pairs") == "[]");
  CHECK(threads.number("/threads/1/not_freed/bytes") == kC);
  CHECK(threads.number("/threads/0/not_freed/bytes") == 0);
}
