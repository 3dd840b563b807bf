// Callers and callees of one function.
#include <catch2/catch.hpp>

#include <map>

#include "analyzer/views/neighbours.h"
#include "tests/unit/views/view_stacks.h"

using namespace heapprof;
using namespace heapprof::test;
using views::Neighbours;

namespace {

using Bytes = std::map<std::string, std::uint64_t>;

struct Answer {
  std::uint64_t self, as_helper, total;
  bool recursive;
  Bytes callers, callees;
};

Answer around(const ViewStacks& stacks, const std::string& function) {
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  const views::FrameTree tree(frames, helpers, views::Level::kFunction);
  std::vector<std::uint32_t> keys;
  for (std::uint32_t key = 0; key < frames.functions().size(); ++key)
    if (frames.functions()[key].name == function) keys.push_back(key);
  const Neighbours found = views::neighbours_of(tree, keys);
  const auto named = [&](const std::vector<views::Neighbour>& rows) {
    Bytes bytes;
    for (const views::Neighbour& row : rows)
      bytes[row.frame.exists() ? frames.at(row.frame).name : "(none)"] += row.total.leaked_bytes;
    return bytes;
  };
  return {found.self.leaked_bytes, found.as_helper.leaked_bytes, found.total.leaked_bytes,
          found.recursive,         named(found.callers),         named(found.callees)};
}

}  // namespace

TEST_CASE("callers are above a function, callees below it, down to the call sites") {
  ViewStacks stacks;
  stacks.leak({"malloc", "load", "main"}, 1);
  stacks.leak({"malloc", "xmalloc", "parse", "load", "main"}, 10);
  stacks.leak({"malloc", "load"}, 100);
  stacks.leak({"malloc", "parse", "main"}, 1000);
  const Answer load = around(stacks, "load");
  CHECK(load.self == 101);
  CHECK(load.as_helper == 0);
  CHECK(load.total == 111);
  CHECK_FALSE(load.recursive);
  CHECK(load.callers == Bytes{{"main", 11}, {"(none)", 100}});
  CHECK(load.callees == Bytes{{"parse", 10}});
}

TEST_CASE("a helper has callers, and what it allocates for them is no cost of its own") {
  ViewStacks stacks;
  stacks.leak({"malloc", "xmalloc", "parse", "main"}, 10);
  stacks.leak({"malloc", "xmalloc", "load", "main"}, 1);
  const Answer helper = around(stacks, "xmalloc");
  CHECK(helper.self == 0);
  CHECK(helper.as_helper == 11);
  CHECK(helper.total == 11);
  CHECK(helper.callers == Bytes{{"parse", 10}, {"load", 1}});
  CHECK(helper.callees.empty());
}

TEST_CASE("a stack counts once for each caller and callee of a recursive function") {
  ViewStacks stacks;
  stacks.leak({"malloc", "walk", "visit", "walk", "visit", "walk", "walk", "main"}, 1);
  const Answer walk = around(stacks, "walk");
  CHECK(walk.recursive);
  CHECK(walk.self == 1);
  CHECK(walk.total == 1);
  CHECK(walk.callers == Bytes{{"main", 1}, {"visit", 1}, {"walk", 1}});
  CHECK(walk.callees == Bytes{{"walk", 1}, {"visit", 1}});
}

TEST_CASE("functions of one name in several modules count as one, and a stack through both counts once") {
  ViewStacks stacks;
  stacks.leak({"malloc", "/home/user/libb.so!init", "/home/user/liba.so!init", "main"}, 10);
  stacks.leak({"malloc", "/home/user/libb.so!init", "main"}, 1);
  const Answer init = around(stacks, "init");
  CHECK(init.total == 11);
  CHECK(init.self == 11);
  CHECK(init.callers == Bytes{{"main", 11}, {"init", 10}});
}
