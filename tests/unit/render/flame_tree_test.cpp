#include "analyzer/render/flame_tree.h"
#include "tests/support/seed.h"

#include <algorithm>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

using namespace heapprof::render;

namespace {

std::string folded(const FlameTree& tree) {
  std::string out;
  write_folded(tree, [&](std::string_view text) { out += text; });
  return out;
}

FlameTree tree_of(const std::vector<std::pair<std::vector<FlameFrame>, std::uint64_t>>& stacks) {
  FlameTree tree;
  for (const auto& [frames, value] : stacks) {
    std::vector<FlameTree::Frame> numbers;
    for (const FlameFrame& frame : frames) numbers.push_back(tree.frame(frame));
    tree.add_stack(numbers, value);
  }
  return tree;
}

FlameFrame named(const std::string& name) { return {.function = name, .module = "", .file = ""}; }

}  // namespace

TEST_CASE("folded: one line per stack, sorted; equal stacks are summed, values of 0 left out") {
  const FlameTree tree = tree_of({{{named("main"), named("b")}, 5},
                                  {{named("main"), named("a"), named("x")}, 7},
                                  {{named("main"), named("b")}, 6},
                                  {{named("main")}, 1},
                                  {{named("main"), named("zero")}, 0},
                                  {{named("main"), named("a")}, 2}});
  CHECK(folded(tree) == "main 1\nmain;a 2\nmain;a;x 7\nmain;b 11\n");
}

TEST_CASE("folded: names cannot break lines or stacks") {
  const FlameTree tree = tree_of({{{named("a;b"), named("c\nd"), named("\xff"), named("")}, 3}});
  CHECK(folded(tree) ==
        "a:b;c\xef\xbf\xbd"
        "d;\xef\xbf\xbd;?? 3\n");
}

TEST_CASE("folded: frames with equal names are one, also in the middle of a stack") {
  const FlameTree tree = tree_of({{{{.function = "init", .module = "a.so", .file = ""}, named("x")}, 1},
                                  {{{.function = "init", .module = "b.so", .file = ""}, named("x")}, 2}});
  CHECK(folded(tree) == "init;x 3\n");
}

TEST_CASE("folded: an empty tree and an unknown stack") {
  CHECK(folded(FlameTree()).empty());
  CHECK(folded(tree_of({{{}, 9}})) == "?? 9\n");
}

TEST_CASE("folded: the order of insertion does not matter") {
  std::mt19937 random(heapprof::test::seed(11));
  std::vector<std::pair<std::vector<FlameFrame>, std::uint64_t>> stacks;
  for (int i = 0; i < 400; ++i) {
    std::vector<FlameFrame> frames;
    for (unsigned k = 0; k < 1 + random() % 12; ++k)
      frames.push_back({.function = "f" + std::to_string(random() % 6),
                        .module = "m" + std::to_string(random() % 2),
                        .file = "",
                        .line = static_cast<std::uint32_t>(random() % 3)});
    stacks.emplace_back(frames, random() % 1000);
  }
  const std::string first = folded(tree_of(stacks));
  std::shuffle(stacks.begin(), stacks.end(), random);
  CHECK(folded(tree_of(stacks)) == first);
}

TEST_CASE("folded: a deep stack is no problem") {
  FlameTree tree;
  const auto frame = tree.frame(named("f"));
  tree.add_stack(std::vector<FlameTree::Frame>(20'000, frame), 1);
  CHECK(folded(tree).size() == 20'000 * 2 + 2);
}

TEST_CASE("calls from several lines of one function are one node, marked several_lines") {
  const auto at = [](std::uint32_t line) {
    return FlameFrame{.function = "f", .module = "m", .file = "f.c", .line = line};
  };
  const FlameTree tree = tree_of({{{at(30)}, 1}, {{at(12)}, 2}, {{at(0)}, 4}});
  REQUIRE(tree.nodes().size() == 2);
  CHECK(tree.nodes()[1].line == 12);
  CHECK(tree.nodes()[1].several_lines);
  CHECK(tree.nodes()[1].self == 7);
}

TEST_CASE("frames differ by module, file and inlining; modules lose their directories") {
  FlameFrame frame{.function = "f", .module = "/usr/lib/libx.so", .file = "f.c"};
  FlameTree tree;
  const auto first = tree.frame(frame);
  CHECK(tree.frame(frame) == first);
  frame.inlined = true;
  const auto inlined = tree.frame(frame);
  CHECK(inlined != first);
  CHECK(tree.child(FlameTree::kRoot, first) != tree.child(FlameTree::kRoot, inlined));
  CHECK(tree.functions()[0].module == "libx.so");
}
