// The call path that most of the memory has in common.
#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <vector>

#include "analyzer/findings/common_path.h"
#include "tests/unit/findings/known_stacks.h"

using namespace heapprof;
using namespace heapprof::findings;
using heapprof::test::KnownStacks;

namespace {

using Names = std::vector<std::string>;

struct Found {
  Names names;
  std::vector<double> shares;
  Held held;
};

/// The path by bytes. If no function has most of them, that of the call site that holds most.
Found path_of(const KnownStacks& stacks) {
  const CodeFrames frames = stacks.frames();
  const Helpers helpers(frames, {});
  const HeldByNode held = stacks.left();
  std::vector<double> weight;
  for (const Held& one : held) weight.push_back(static_cast<double>(one.bytes));
  const CallSites sites(frames, helpers, held);
  const FrameRef first = sites.sites().empty() ? FrameRef{} : sites.sites().front().frame;
  const std::optional<CommonPath> path = find_common_path(frames, helpers, held, weight, first);
  Found found;
  if (!path) return found;
  for (const PathFunction& one : path->functions) {
    found.names.push_back(frames.at(one.frame).name);
    found.shares.push_back(one.share);
  }
  found.held = path->held;
  return found;
}

std::string numbered(const std::string& name, int number) { return name + std::to_string(number); }

}  // namespace

TEST_CASE("the path of one stack goes from main's callee to its call site") {
  KnownStacks stacks;
  stacks.add({"malloc", "std::string::append(char const*)", "leak:7", "handle", "serve", "main", "_start"}, 10, 100,
             10);
  const Found found = path_of(stacks);
  CHECK(found.names == Names{"serve", "handle", "leak"});
  CHECK(found.held == Held{1000, 10});
  CHECK(found.shares == std::vector<double>{1, 1, 1});
}

TEST_CASE("the path ends where the memory divides into many small stacks") {
  KnownStacks stacks;
  for (int i = 0; i < 36; ++i)
    stacks.add({"malloc", numbered("part", i), "build_cycle", "handle", "serve", "main"}, 10, 10, 10);
  stacks.add({"malloc", "session", "serve", "main"}, 10, 90, 10);
  stacks.add({"malloc", "work", "main"}, 1000, 1, 0);
  const Found found = path_of(stacks);
  CHECK(found.names == Names{"serve", "handle", "build_cycle"});
  CHECK(found.held == Held{3600, 360});
  // 900 of the 4,500 bytes below serve() are others.
  CHECK(found.shares[0] == Approx(0.8));
  CHECK(found.shares[2] == 1);
}

TEST_CASE("a function that only some of the memory passes through is not on the path") {
  KnownStacks stacks;
  stacks.add({"malloc", "read_index:7", "open", "merge", "main"}, 40, 10, 40);
  stacks.add({"malloc", "read_index:7", "checkout", "merge", "main"}, 60, 10, 60);
  stacks.add({"malloc", "work", "main"}, 1000, 10, 0);
  CHECK(path_of(stacks).names == Names{"merge", "read_index"});
  // Nine tenths are enough.
  stacks.add({"malloc", "read_index:7", "checkout", "merge", "main"}, 300, 10, 300);
  CHECK(path_of(stacks).names == Names{"merge", "checkout", "read_index"});
}

TEST_CASE("instances of a template count as one function") {
  KnownStacks stacks;
  stacks.add({"malloc", "create", "Node::get<int>(int const&)", "main"}, 10, 10, 10);
  stacks.add({"malloc", "create", "Node::get<char>(char const&)", "main"}, 10, 10, 10);
  const Found found = path_of(stacks);
  REQUIRE(found.names.size() == 2);
  CHECK(found.names[0].starts_with("Node::get<"));
  CHECK(found.names[1] == "create");
}

TEST_CASE("recursion is one function on the path") {
  KnownStacks stacks;
  stacks.add({"malloc", "copy_node:3", "copy_list", "copy_node:9", "copy_list", "include", "main"}, 10, 10, 10);
  stacks.add({"malloc", "copy_node:3", "copy_list", "include", "main"}, 10, 10, 10);
  const Found found = path_of(stacks);
  CHECK(found.names == Names{"include", "copy_list", "copy_node"});
  CHECK(found.held == Held{200, 20});
}

TEST_CASE("where no function has most of the memory, the path is that of the first call site") {
  KnownStacks stacks;
  for (int i = 0; i < 5; ++i)
    stacks.add({"malloc", numbered("take", i), numbered("user", i), "main"}, 10, i == 3 ? 30 : 10, 10);
  const Found found = path_of(stacks);
  CHECK(found.names == Names{"user3", "take3"});
  CHECK(found.held == Held{300, 10});
}

TEST_CASE("a function below which everything was allocated says no more than main") {
  KnownStacks stacks;
  for (int i = 0; i < 5; ++i)
    stacks.add({"malloc", numbered("take", i), "one_round", "main"}, 10, i == 3 ? 30 : 10, 10);
  CHECK(path_of(stacks).names == Names{"one_round", "take3"});
  stacks.add({"malloc", "read_settings", "main"}, 10, 10, 0);
  CHECK(path_of(stacks).names == Names{"one_round"});
}

TEST_CASE("helpers, libraries and functions without a name are not on the path") {
  KnownStacks stacks;
  for (int i = 0; i < 6; ++i)
    stacks.add({"malloc", "xmalloc", "take:3", numbered("user", i), "serve", "main"}, 10, 10,
               static_cast<std::uint64_t>(i));
  stacks.add({"malloc", "work", "main"}, 10, 100, 0);
  CHECK(path_of(stacks).names == Names{"serve"});
}

TEST_CASE("there is no path without memory, or where all of it is in main") {
  KnownStacks stacks;
  CHECK(path_of(stacks).names.empty());
  stacks.add({"malloc", "main:3"}, 10, 10, 10);
  CHECK(path_of(stacks).names.empty());
}
