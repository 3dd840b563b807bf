// Which functions keep what they allocate.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "analyzer/findings/keepers.h"
#include "tests/unit/findings/known_stacks.h"

using namespace heapprof;
using namespace heapprof::findings;
using heapprof::test::KnownStacks;

namespace {

std::vector<std::string> keepers_of(const KnownStacks& stacks, std::size_t max = 5) {
  const CodeFrames frames = stacks.frames();
  std::vector<std::string> names;
  for (const Keeper& keeper : find_keepers(frames, Helpers(frames, {}), stacks.left(), max))
    names.push_back(frames.name_of(keeper.function));
  return names;
}

std::string numbered(const std::string& name, int number) { return name + std::to_string(number); }

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("many small stacks below one function name that function") {
  KnownStacks stacks;
  for (int i = 0; i < 36; ++i)
    stacks.add({"xmalloc", numbered("part", i), "build_cycle", "handle", "main"}, 10, 100, 10);
  for (int i = 0; i < 36; ++i) stacks.add({"xmalloc", numbered("step", i), "handle", "main"}, 10, 100, 0);
  const Names keepers = keepers_of(stacks);
  REQUIRE(keepers.size() == 5);
  CHECK(keepers[0] == "build_cycle");
}

TEST_CASE("of functions with the same figures the innermost is named") {
  KnownStacks stacks;
  stacks.add({"malloc", "leak:7", "outer", "outermost", "main"}, 10, 100, 10);
  stacks.add({"malloc", "work", "main"}, 10, 10, 1);
  CHECK(keepers_of(stacks) == Names{"leak", "work"});
}

TEST_CASE("a cache that turns over weighs less than a small leak") {
  KnownStacks stacks;
  stacks.add({"malloc", "cache_put:3", "serve", "main"}, 10'000, 1000, 1000);
  stacks.add({"malloc", "open_session:3", "serve", "main"}, 100, 1000, 100);
  CHECK(keepers_of(stacks).front() == "open_session");
}

TEST_CASE("shares are of bytes and of blocks, and recursion counts once") {
  KnownStacks stacks;
  stacks.add({"malloc", "tree:7", "tree:8", "tree:8", "main"}, 4, 100, 1);
  stacks.add({"malloc", "tree:7", "tree:8", "main"}, 4, 300, 3);
  const CodeFrames frames = stacks.frames();
  const std::vector<Keeper> keepers = find_keepers(frames, Helpers(frames, {}), stacks.left());
  REQUIRE(keepers.size() == 1);
  CHECK(keepers[0].held == Held{1000, 4});
  CHECK(keepers[0].allocated == Held{1600, 8});
  CHECK(keepers[0].bytes_share == Approx(0.625));
  CHECK(keepers[0].blocks_share == Approx(0.5));
  CHECK(keepers[0].weight == Approx(312.5));
}

TEST_CASE("a table that a realloc enlarges goes on") {
  KnownStacks stacks;
  const std::uint32_t node = stacks.add({"realloc", "table_add:7", "main"}, 100, 100, 1);
  stacks.profile().nodes[node].costs.moved_blocks = 99;
  stacks.profile().nodes[node].costs.moved_bytes = 9900;
  const CodeFrames frames = stacks.frames();
  const std::vector<Keeper> keepers = find_keepers(frames, Helpers(frames, {}), stacks.left());
  REQUIRE(keepers.size() == 1);
  CHECK(keepers[0].blocks_share == 1);
  CHECK(keepers[0].bytes_share == 1);
}

TEST_CASE("helpers, libraries, main and start-up code keep nothing") {
  KnownStacks stacks;
  for (int i = 0; i < 6; ++i)
    stacks.add({"operator new(unsigned long)", "std::string::append(char const*)", "xmalloc", "take:3",
                numbered("user", i), "main", "_start"},
               10, 100, static_cast<std::uint64_t>(i));
  const Names keepers = keepers_of(stacks, 10);
  CHECK(keepers == Names{"user5", "user4", "user3", "user2", "user1"});
}

TEST_CASE("own code is named before a third party's code that is built in, and beside another library") {
  KnownStacks stacks;
  stacks.add({"malloc", "crate::Bucket::push", "crate::record", "sample:3", "serve", "main"}, 10, 100, 10);
  stacks.add({"malloc", "work", "serve", "main"}, 90, 100, 0);
  CHECK(keepers_of(stacks) == Names{"sample"});
  stacks.add({"/usr/lib/libx.so!x_new", "/usr/lib/libx.so!x_load", "read_settings:8", "serve", "main"}, 10, 500, 10);
  const CodeFrames frames = stacks.frames();
  const std::vector<Keeper> keepers = find_keepers(frames, Helpers(frames, {}), stacks.left());
  REQUIRE(keepers.size() >= 2);
  CHECK(frames.name_of(keepers[0].function) == "x_new");
  CHECK(frames.at(keepers[0].frame).name == "x_new");
  REQUIRE(keepers[0].own_caller.exists());
  CHECK(frames.at(keepers[0].own_caller).name == "read_settings");
  CHECK(frames.name_of(keepers[1].function) == "sample");
  CHECK_FALSE(keepers[1].own_caller.exists());
}

TEST_CASE("the own function that holds what a library allocates in many places is the last") {
  KnownStacks stacks;
  for (int i = 0; i < 20; ++i) {
    const std::string part = "/usr/lib/libx.so!" + numbered("x_part", i);
    stacks.add({part, "/usr/lib/libx.so!x_load", "load", "serve", "main"}, 10, 100, 5);
    stacks.add({"malloc", "load", "serve", "main"}, 100, 100, 0);
  }
  const Names keepers = keepers_of(stacks);
  REQUIRE(keepers.size() == 5);
  CHECK(keepers.front() == "x_load");
  CHECK(keepers.back() == "load");
  CHECK(keepers_of(stacks, 1) == Names{"load"});
}

TEST_CASE("functions beyond the first that are compared are found, too") {
  KnownStacks stacks;
  std::vector<std::string> chain = {"malloc", "leak"};
  for (int i = 0; i < 100; ++i) chain.push_back(numbered("level", i));
  chain.push_back("main");
  stacks.add(chain, 10, 100, 10);
  stacks.add({"malloc", "second", "main"}, 10, 10, 10);
  CHECK(keepers_of(stacks) == Names{"leak", "second"});
}
