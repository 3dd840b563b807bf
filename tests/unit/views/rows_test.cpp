// Rows of views: own and inclusive sums.
#include <catch2/catch.hpp>

#include "analyzer/findings/call_sites.h"
#include "tests/unit/views/view_stacks.h"

using namespace heapprof;
using namespace heapprof::test;
using views::FrameTree;
using views::Level;
using views::Row;

namespace {

NamedRows rows_at(const ViewStacks& stacks, Level level) {
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  return named(frames, views::rows_of(FrameTree(frames, helpers, level)));
}

}  // namespace

TEST_CASE("a function costs itself what its call sites cost, and in total what is below it") {
  ViewStacks stacks;
  stacks.leak({"malloc", "load", "main"}, 1);
  stacks.leak({"malloc", "xmalloc", "parse", "load", "main"}, 10);
  stacks.leak({"malloc", "main"}, 100);
  CHECK(
      rows_at(stacks, Level::kFunction) ==
      NamedRows{
          {"malloc", {0, 111}}, {"xmalloc", {0, 10}}, {"parse", {10, 10}}, {"load", {1, 11}}, {"main", {100, 111}}});
}

TEST_CASE("recursion counts once") {
  ViewStacks stacks;
  stacks.leak({"malloc", "walk", "walk", "walk", "main"}, 1);
  stacks.leak({"malloc", "odd", "even", "odd", "even", "main"}, 10);
  stacks.leak({"malloc", "even", "main"}, 100);
  const NamedRows rows = rows_at(stacks, Level::kFunction);
  CHECK(rows.at("walk") == std::pair<std::uint64_t, std::uint64_t>{1, 1});
  CHECK(rows.at("odd") == std::pair<std::uint64_t, std::uint64_t>{10, 10});
  CHECK(rows.at("even") == std::pair<std::uint64_t, std::uint64_t>{100, 110});
  CHECK(rows.at("main") == std::pair<std::uint64_t, std::uint64_t>{0, 111});
}

TEST_CASE("inlined functions are rows like others") {
  ViewStacks stacks;
  stacks.leak({"std::vector<int>::push_back(int)/Table::add(int):3/load:9", "main"}, 7);
  stacks.leak({"malloc", "load:12", "main"}, 1);
  const NamedRows rows = rows_at(stacks, Level::kFunction);
  CHECK(rows.at("std::vector<int>::push_back(int)") == std::pair<std::uint64_t, std::uint64_t>{0, 7});
  CHECK(rows.at("Table::add(int)") == std::pair<std::uint64_t, std::uint64_t>{7, 7});
  CHECK(rows.at("load") == std::pair<std::uint64_t, std::uint64_t>{1, 8});
}

TEST_CASE("functions of one name in two modules are two rows, and modules sum their functions") {
  ViewStacks stacks;
  stacks.leak({"/home/user/liba.so!init", "main"}, 1);
  stacks.leak({"/home/user/libb.so!init", "/home/user/liba.so!init", "main"}, 10);
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  std::vector<std::pair<std::string, std::uint64_t>> inits;
  for (const Row& row : views::rows_of(FrameTree(frames, helpers, Level::kFunction)))
    if (frames.at(row.frame).name == "init")
      inits.emplace_back(stacks.profile().modules[frames.at(row.frame).module].path, row.total.leaked_bytes);
  CHECK(inits ==
        std::vector<std::pair<std::string, std::uint64_t>>{{"/home/user/liba.so", 11}, {"/home/user/libb.so", 10}});
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> modules;
  for (const Row& row : views::rows_of(FrameTree(frames, helpers, Level::kModule)))
    modules[stacks.profile().modules[frames.at(row.frame).module].path] = {row.self.leaked_bytes,
                                                                           row.total.leaked_bytes};
  CHECK(modules == NamedRows{{"/home/user/program", {0, 11}},
                             {"/home/user/liba.so", {1, 11}},
                             {"/home/user/libb.so", {10, 10}}});
}

TEST_CASE("lines of one function are rows of their own, and recursion through another line counts for both") {
  ViewStacks stacks;
  stacks.leak({"malloc", "walk:2", "walk:1", "main"}, 1);
  stacks.leak({"malloc", "walk:1", "main"}, 10);
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  std::map<int, std::pair<std::uint64_t, std::uint64_t>> lines;
  for (const Row& row : views::rows_of(FrameTree(frames, helpers, Level::kLine)))
    if (frames.at(row.frame).name == "walk")
      lines[frames.source_of(row.frame)->line] = {row.self.leaked_bytes, row.total.leaked_bytes};
  CHECK(lines == std::map<int, std::pair<std::uint64_t, std::uint64_t>>{{1, {10, 11}}, {2, {1, 1}}});
}

TEST_CASE("own costs of all groupings add up to the totals, stacks without frames included") {
  ViewStacks stacks;
  stacks.leak({"malloc", "xmalloc", "load:1", "main"}, 1);
  stacks.leak({"malloc"}, 10);
  stacks.leak({"/lib64/ld-linux-x86-64.so.2!malloc", "/lib64/ld-linux-x86-64.so.2!_dl_start"}, 100);
  stacks.leak({"malloc", "crate::queue", "crate::main"}, 1000);
  stacks.leak({"malloc", "crate::queue", "serve", "main"}, 10000);
  model::Costs unknown;
  unknown.leaked_bytes = unknown.allocated_bytes = 100000;
  unknown.leaked_blocks = unknown.allocations = 1;
  stacks.profile().nodes[0].costs = unknown;
  stacks.profile().totals += unknown;
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  std::vector<std::vector<Row>> views = {views::rows_by_site(frames, helpers), views::rows_by_stack(frames, helpers)};
  for (const Level level : {Level::kFunction, Level::kLine, Level::kModule})
    views.push_back(views::rows_of(FrameTree(frames, helpers, level)));
  for (const std::vector<Row>& rows : views) {
    model::Costs sum;
    for (const Row& row : rows) sum += row.self;
    CHECK(sum.leaked_bytes == 111111);
    CHECK(sum.allocations == stacks.profile().totals.allocations);
  }
}

TEST_CASE("functions cost what their call sites cost") {
  ViewStacks stacks;
  stacks.leak({"malloc", "load:1", "load:2", "main"}, 1);
  stacks.leak({"malloc", "crate::queue", "serve:2/load:3", "main"}, 10);
  stacks.leak({"malloc", "crate::queue", "crate::queue", "main"}, 100);
  stacks.leak({"operator new(unsigned long)", "std::f()", "serve:5", "load:2", "main"}, 1000);
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  NamedRows sites;
  for (const Row& row : views::rows_by_site(frames, helpers))
    sites[frames.at(row.frame).name].first += row.self.leaked_bytes;
  for (const Row& row : views::rows_of(FrameTree(frames, helpers, Level::kFunction)))
    if (!row.self.empty()) CHECK(sites[frames.at(row.frame).name].first == row.self.leaked_bytes);
  CHECK(sites.at("serve").first == 1010);
  CHECK(sites.at("crate::queue").first == 100);
}

TEST_CASE("with own code only, the costs of other code are those of the own code that called it") {
  ViewStacks stacks;
  stacks.leak({"malloc", "/usr/lib/libxml.so!xmlParse", "load", "main"}, 1);
  stacks.leak({"malloc", "/usr/lib/libxml.so!xmlParse", "callback", "/usr/lib/libxml.so!xmlWalk", "load", "main"},
              10);
  stacks.leak({"malloc", "/usr/lib/libxml.so!xmlInit"}, 100);
  stacks.leak({"malloc", "load", "main"}, 1000);
  stacks.leak({"malloc", "main", "/usr/lib/libwrap.so!run"}, 10'000);
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  const FrameTree tree(frames, helpers, Level::kFunction, views::Scope::kOwn);
  CHECK(named(frames, views::rows_of(tree)) ==
        NamedRows{
            {"callback", {10, 10}}, {"load", {1001, 1011}}, {"main", {10'000, 11'011}}, {"(no frames)", {100, 100}}});
  CHECK(named(frames, views::rows_by_site(frames, helpers, views::Scope::kOwn)) ==
        NamedRows{
            {"callback", {10, 10}}, {"load", {1001, 1001}}, {"main", {10'000, 10'000}}, {"(no frames)", {100, 100}}});
}

TEST_CASE("each stack is in the group of the row to whose own costs it belongs") {
  ViewStacks stacks;
  stacks.leak({"malloc", "load", "main"}, 1);
  stacks.leak({"malloc", "xmalloc", "parse", "load", "main"}, 10);
  stacks.leak({}, 100);
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  const auto check = [&](const std::vector<Row>& rows, const views::StackGroups& groups) {
    const std::vector<model::CallNode>& nodes = stacks.profile().nodes;
    REQUIRE(groups.size() == nodes.size());
    for (const Row& row : rows) {
      std::uint64_t sum = 0;
      for (std::size_t node = 0; node < nodes.size(); ++node)
        if (groups[node] == row.group) sum += nodes[node].costs.leaked_bytes;
      CHECK(sum == row.self.leaked_bytes);
    }
  };
  for (const Level level : {Level::kFunction, Level::kLine, Level::kModule}) {
    const FrameTree tree(frames, helpers, level);
    check(views::rows_of(tree), views::groups_of(tree));
  }
  check(views::rows_by_site(frames, helpers), views::groups_by_site(frames, helpers));
}
