// Trees from callers to call sites and back.
#include <catch2/catch.hpp>

#include "analyzer/views/tree.h"
#include "tests/unit/views/view_stacks.h"

using namespace heapprof;
using namespace heapprof::test;
using views::FrameTree;
using views::Level;
using views::TreeNode;

namespace {

std::uint64_t leaked(const model::Costs& costs) { return costs.leaked_bytes; }

/// "main 11 (load 1 (xread 1) parse 10)": names, totals and children.
std::string text_of(const findings::CodeFrames& frames, const TreeNode& node) {
  std::string text = node.frame.exists() ? frames.at(node.frame).name : "root";
  text += " " + std::to_string(node.total.leaked_bytes);
  if (node.self.leaked_bytes != 0) text += " self " + std::to_string(node.self.leaked_bytes);
  std::string inner;
  for (const TreeNode& child : node.children) inner += (inner.empty() ? "" : ", ") + text_of(frames, child);
  if (node.left_out != 0)
    inner += (inner.empty() ? "+" : ", +") + std::to_string(node.left_out) + " " +
             std::to_string(node.left_out_total.leaked_bytes);
  return inner.empty() ? text : text + " (" + inner + ")";
}

/// A tree of these stacks: innermost frames first, each stack with the bytes that it leaked.
std::string tree_of(const std::vector<std::pair<std::vector<std::string>, std::uint64_t>>& leaks, bool inverted,
                    const views::TreeLimits& limits = {}) {
  ViewStacks stacks;
  for (const auto& [frames, bytes] : leaks) stacks.leak(frames, bytes);
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  const FrameTree tree(frames, helpers, Level::kFunction);
  return text_of(frames,
                 inverted ? views::inverted_tree(tree, leaked, limits) : views::top_down_tree(tree, leaked, limits));
}

}  // namespace

TEST_CASE("a tree goes down to call sites, with the largest child first") {
  CHECK(tree_of(
            {{{"malloc", "load", "main"}, 1}, {{"malloc", "xmalloc", "parse", "main"}, 10}, {{"malloc", "main"}, 5}},
            false) == "root 16 (main 16 self 5 (parse 10 self 10, load 1 self 1))");
}

TEST_CASE("equal frames at different addresses are one node, and recursion is a chain") {
  CHECK(tree_of({{{"malloc", "walk:1", "walk:2", "main"}, 1}, {{"malloc", "walk:3", "walk:4", "main"}, 2}}, false) ==
        "root 3 (main 3 (walk 3 (walk 3 self 3)))");
}

TEST_CASE("an inverted tree goes from call sites to their callers") {
  CHECK(tree_of({{{"malloc", "read", "load", "main"}, 1}, {{"malloc", "read", "parse", "main"}, 10}}, true) ==
        "root 11 (read 11 (parse 10 (main 10 self 10), load 1 (main 1 self 1)))");
  CHECK(tree_of({{{"malloc", "walk", "walk", "main"}, 1}, {{"malloc", "walk", "main"}, 2}}, true) ==
        "root 3 (walk 3 (main 2 self 2, walk 1 (main 1 self 1)))");
}

TEST_CASE("what limits leave out is counted at its parent") {
  const std::vector<std::pair<std::vector<std::string>, std::uint64_t>> leaks = {
      {{"malloc", "a", "main"}, 90}, {{"malloc", "b", "main"}, 6}, {{"malloc", "c", "main"}, 4}};
  CHECK(tree_of(leaks, false, {.min_share = 0.06}) == "root 100 (main 100 (a 90 self 90, b 6 self 6, +1 4))");
  CHECK(tree_of(leaks, false, {.depth = 1}) == "root 100 (main 100 (+3 100))");
  CHECK(tree_of(leaks, true, {.depth = 1, .min_share = 0.05}) == "root 100 (a 90 (+1 90), b 6 (+1 6), +1 4)");
}

TEST_CASE("a tree of very deep stacks ends at a depth, and says so") {
  std::vector<std::string> stack = {"malloc"};
  for (int i = 0; i < 5000; ++i) stack.push_back("f" + std::to_string(i));
  CHECK(tree_of({{stack, 1}}, false).ends_with("(+1 1)" + std::string(views::kMaxTreeDepth, ')')));
}
