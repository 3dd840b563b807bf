#include "analyzer/processes/process_pairs.h"

#include <catch2/catch.hpp>

using namespace heapprof;
using namespace heapprof::processes;

namespace {

model::ProcessFigures process(const std::string& program, const std::string& command) {
  model::ProcessFigures figures;
  figures.program = program;
  figures.command = command;
  return figures;
}

/// By process of `after`: the position before, or -1; then those that only `before` has, as 100 + position.
std::vector<int> matched(const std::vector<model::ProcessFigures>& before,
                         const std::vector<model::ProcessFigures>& after) {
  std::vector<int> result;
  for (const ProcessPair& pair : process_pairs(before, after))
    result.push_back(!pair.after   ? 100 + static_cast<int>(*pair.before)
                     : pair.before ? static_cast<int>(*pair.before)
                                   : -1);
  return result;
}

}  // namespace

TEST_CASE("Processes match by program and command, whatever their order") {
  const std::vector<model::ProcessFigures> before = {
      process("/old/cc1", "/old/cc1 a.c"), process("/old/cc1", "/old/cc1 b.c"), process("/bin/sh", "sh -c x")};
  const std::vector<model::ProcessFigures> after = {
      process("/bin/sh", "sh -c x"), process("/new/cc1", "/new/cc1 b.c"), process("/new/cc1", "/new/cc1 a.c")};
  CHECK(matched(before, after) == std::vector<int>{2, 1, 0});
}

TEST_CASE("Processes whose command is new match the first of the same program that is left") {
  const std::vector<model::ProcessFigures> before = {process("/cc1", "cc1 /tmp/1.c"), process("/cc1", "cc1 same"),
                                                     process("/gone", "gone")};
  const std::vector<model::ProcessFigures> after = {process("/cc1", "cc1 /tmp/2.c"), process("/cc1", "cc1 same"),
                                                    process("/new", "new")};
  CHECK(matched(before, after) == std::vector<int>{0, 1, -1, 102});
}
