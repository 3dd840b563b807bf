// A program with a gap between its segments, at fixed addresses. The loader describes such an object segment by
// segment, and the unwind information is in another segment than the code.
#include <catch2/catch.hpp>

#include "harness.h"

using namespace unwind_test;

namespace {

Hook* g_hook;

[[gnu::noinline, gnu::section(".far_text")]] void far_away(int depth) {
  if (depth == 0) (*g_hook)();
  else far_away(depth - 1);
  asm volatile("");
}

}  // namespace

TEST_CASE("code in a segment of its own") {
  REQUIRE(heapprof::unwind::start({}));
  Recorder recorder;
  Hook here(recorder);
  g_hook = &here;
  far_away(3);
  INFO(here.result.first_difference);
  CHECK(here.result.different == 0);
  // There is one module for all segments.
  std::size_t main_modules = 0;
  for (const auto& [id, known] : Tree::modules()) main_modules += known.back().main;
  CHECK(main_modules == 1);
}
