// heapprof frees: frees by allocating and freeing stack.
#include <catch2/catch.hpp>

#include <cstring>

#include "tests/support/trace_builder.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

/// Two blocks of one stack are freed by another, a third by an unknown one.
void write_with_stacks(const std::string& path) {
  TraceBuilder trace;
  std::strcpy(trace.header.settings, "HEAPPROF_FREE_STACKS=1\n");
  auto& main = trace.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);  // allocates
  main.node(2, 0, 2, 0x200);  // frees
  main.alloc(1 * kMs, 0xa000, 10, 1);
  main.alloc(1 * kMs, 0xb000, 20, 1);
  main.alloc(1 * kMs, 0xc000, 40, 1);
  main.add(heapprof::Op::kFreeStack, 2 * kMs, 0xa000, 0, 2);
  main.add(heapprof::Op::kFreeStack, 3 * kMs, 0xb000, 0, 2);
  main.free(4 * kMs, 0xc000);
  trace.write(path);
}

}  // namespace

TEST_CASE("frees --json has pairs of stacks, and the frees without a stack") {
  const TemporaryFile trace;
  write_with_stacks(trace.path());
  const Outcome frees = run({"frees", trace.path(), "--json"});
  CHECK(frees.status == 0);
  CHECK(frees.at("/free_stacks_recorded") == "true");
  CHECK(frees.number("/known/blocks") == 2);
  CHECK(frees.number("/known/bytes") == 10 + 20);
  CHECK(frees.number("/unknown/blocks") == 1);
  CHECK(frees.number("/unknown/bytes") == 40);
  REQUIRE(frees.count("/pairs") == 1);
  CHECK(frees.number("/pairs/0/blocks") == 2);
  CHECK(frees.number("/pairs/0/bytes") == 10 + 20);
  CHECK(frees.number("/pairs/0/allocated_by/0/offset") == 0x100);
  CHECK(frees.number("/pairs/0/freed_by/0/offset") == 0x200);
}

TEST_CASE("a realloc that returns no block frees without a stack") {
  TraceBuilder builder;
  auto& main = builder.stream();
  main.thread(1, "main");
  main.module(2, "/opt/known/demo", "", 0x400000, 0x400000);
  main.node(1, 0, 2, 0x100);
  main.alloc(1 * kMs, 0xa000, 10, 1);
  main.realloc_begin(2 * kMs, 0xa000);
  main.realloc_end(2 * kMs, 0, 0);
  const TemporaryFile trace;
  builder.write(trace.path());
  const Outcome frees = run({"frees", trace.path(), "--json"});
  CHECK(frees.number("/known/blocks") == 0);
  CHECK(frees.number("/unknown/blocks") == 1);
  CHECK(frees.number("/unknown/bytes") == 10);
  CHECK(frees.at("/pairs") == "[]");
  const Outcome query =
      run({"query", trace.path(), "SELECT freed_in_realloc, freeing_stack_id IS NULL FROM allocations", "--csv"});
  CHECK(query.out.ends_with("\n1,1\n"));
}

TEST_CASE("frees --json --shared-frames has each frame once, and the number of all pairs") {
  const TemporaryFile trace;
  write_with_stacks(trace.path());
  const Outcome frees = run({"frees", trace.path(), "--json", "--shared-frames"});
  CHECK(frees.status == 0);
  CHECK(frees.number("/all_pairs") == 1);
  CHECK(frees.at("/pairs/0/allocated_by") == "[0]");
  CHECK(frees.at("/pairs/0/freed_by") == "[1]");
  CHECK(frees.count("/frames") == 2);
  CHECK(frees.number("/frames/0/offset") == 0x100);
  CHECK(frees.number("/frames/1/offset") == 0x200);
}

TEST_CASE("frees prints allocating stack and freeing stack") {
  const TemporaryFile trace;
  write_with_stacks(trace.path());
  const Outcome frees = run({"frees", trace.path()});
  CHECK(frees.has_line({"with stack", "66.7%", "3"}));
  CHECK(frees.has_line({"1", "2 blocks", "30 B"}));
  const std::size_t allocating = frees.out.find("demo+0x100");
  const std::size_t freeing = frees.out.find("demo+0x200");
  REQUIRE(allocating != std::string::npos);
  REQUIRE(freeing != std::string::npos);
  CHECK(allocating < freeing);
}

TEST_CASE("frees prints that the stacks of frees were not recorded") {
  const KnownTrace trace;
  const Outcome frees = run({"frees", trace.path(), "--json"});
  CHECK(frees.status == 0);
  CHECK(frees.at("/free_stacks_recorded") == "false");
  CHECK(frees.number("/known/blocks") == 0);
  CHECK(frees.number("/unknown/blocks") == kFrees);
  CHECK(frees.at("/pairs") == "[]");
  CHECK(run({"frees", trace.path()}).out.find("--free-stacks") != std::string::npos);
}
