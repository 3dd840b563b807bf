// Lines of Python in the call tree: equal ones are one node, and the interpreter's frames between them are folded.
#include "analyzer/model/call_tree.h"

#include <catch2/catch.hpp>

#include <set>
#include <string>

#include "analyzer/symbols/module_symbols.h"
#include "tests/support/python_text.h"

using namespace heapprof;
using namespace heapprof::model;
using heapprof::test::python_code_text;

namespace {

constexpr std::uint32_t kInterpreter = 2;  // a module
// Offsets in it.
constexpr std::uint64_t kMain = 1, kEval = 2, kCall = 3, kSort = 4, kResize = 5;
const std::set<std::uint64_t> kFolded = {kEval, kCall};

constexpr std::uint32_t kPythonModule = raw(ModuleId::kPython);

class Tree {
 public:
  Tree() {
    trace::ModuleDefinition module;
    module.id = static_cast<ModuleId>(kInterpreter);
    module.path = "/usr/bin/python3.11";
    definitions.modules.push_back(module);
    definitions.nodes.emplace_back();
    definitions.python.add_interpreter({0x030b07f0, ""});
    // Two bytes of bytecode a line, from the first one on.
    for (const auto& [number, name] : {std::pair(1, "<module>"), std::pair(2, "work"), std::pair(3, "work")})
      definitions.python.add_piece(static_cast<std::uint64_t>(number), 0,
                                   python_code_text("/app/app.py", name, static_cast<std::uint32_t>(10),
                                                    PythonLines::kLnotab, "\x04\x01\x02\x01"));
  }

  /// The index of a new node.
  std::uint32_t add(std::uint32_t parent, std::uint32_t module, std::uint64_t offset) {
    trace::NodeDefinition node;
    node.parent = parent;
    node.module = module;
    node.offset = offset;
    node.defined = true;
    definitions.nodes.push_back(node);
    definitions.node_count = static_cast<std::uint32_t>(definitions.nodes.size());
    return definitions.node_count - 1;
  }
  std::uint32_t native(std::uint32_t parent, std::uint64_t offset) { return add(parent, kInterpreter, offset); }
  std::uint32_t python(std::uint32_t parent, std::uint32_t code, std::uint32_t instruction) {
    return add(parent, kPythonModule, python_offset(code, instruction));
  }

  LinkedTree link(bool folds) const {
    const FindFolded find = [](const std::vector<Module>&, const std::vector<CodeAddress>& asked) {
      std::vector<std::uint8_t> found;
      for (const CodeAddress& address : asked) found.push_back(kFolded.contains(address.offset));
      return found;
    };
    return link_tree(definitions, folds ? find : FindFolded());
  }

  trace::Definitions definitions;
};

/// The frames of a node, innermost first: "work:11", "n4" of native code.
std::string stack_of(const LinkedTree& tree, std::uint32_t index) {
  std::string text;
  for (std::uint32_t node = tree.node_of_index[index]; node != 0; node = tree.nodes[node].parent) {
    if (!text.empty()) text += ' ';
    if (tree.nodes[node].address == kNoIndex) {
      text += tree.nodes[node].truncated;
      continue;
    }
    const CodeAddress& address = tree.addresses[tree.nodes[node].address];
    if (tree.modules[address.module].is_python) {
      const auto* const frames = tree.python_symbols->find(address.offset);
      REQUIRE(frames != nullptr);
      text += frames->front().function + ":" + std::to_string(frames->front().line);
    } else {
      text += "n" + std::to_string(address.offset);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("Lines of Python have function, file and line, in a module of their own") {
  Tree tree;
  const std::uint32_t at = tree.python(tree.python(0, 1, 0), 2, 2);
  const LinkedTree linked = tree.link(false);
  CHECK(stack_of(linked, at) == "work:11 <module>:10");
  REQUIRE(linked.python_symbols != nullptr);
  CHECK(linked.python_symbols->frames.front().front().file == "/app/app.py");
  CHECK(linked.modules.back().path == "Python 3.11");
  CHECK(linked.modules.back().is_python);
  CHECK(linked.lost_python_codes == 0);
}

TEST_CASE("The module that calls a line of Python evaluates it, and the one that a line calls does not") {
  Tree tree;
  constexpr std::uint32_t kExtension = 3;
  trace::ModuleDefinition module;
  module.id = static_cast<ModuleId>(kExtension);
  module.path = "/app/native.so";
  tree.definitions.modules.push_back(module);
  tree.add(tree.python(tree.native(0, kEval), 1, 0), kExtension, 9);
  const LinkedTree linked = tree.link(true);
  CHECK(linked.modules[1].evaluates_python);
  CHECK_FALSE(linked.modules[2].evaluates_python);
  CHECK_FALSE(tree.link(false).modules[1].evaluates_python);  // not asked for
}

TEST_CASE("A line of Python whose instruction is unknown is the first one of its function") {
  Tree tree;
  const std::uint32_t at = tree.python(tree.python(0, 1, 2), 2, kPythonNoInstruction);
  CHECK(stack_of(tree.link(false), at) == "work:10 <module>:11");
}

TEST_CASE("Equal code objects, and instructions of one line, are one node") {
  Tree tree;
  const std::uint32_t caller = tree.python(0, 1, 0);
  const std::uint32_t one = tree.python(caller, 2, 0);
  CHECK(tree.link(false).nodes.size() == 3);
  const std::uint32_t same_line = tree.python(caller, 2, 1);
  const std::uint32_t same_code = tree.python(caller, 3, 1);
  const std::uint32_t other_line = tree.python(caller, 3, 3);
  const LinkedTree linked = tree.link(false);
  CHECK(linked.node_of_index[same_line] == linked.node_of_index[one]);
  CHECK(linked.node_of_index[same_code] == linked.node_of_index[one]);
  CHECK(linked.node_of_index[other_line] != linked.node_of_index[one]);
  CHECK(linked.nodes.size() == 4);
}

TEST_CASE("A line whose code object is missing is shown by its number") {
  Tree tree;
  const std::uint32_t at = tree.python(tree.python(0, 1, 0), 9, 2);
  const std::uint32_t again = tree.python(tree.python(0, 1, 0), 9, 5);
  const LinkedTree linked = tree.link(false);
  CHECK(stack_of(linked, at) == "(unknown Python code) +9:0 <module>:10");
  CHECK(linked.node_of_index[at] == linked.node_of_index[again]);
  CHECK(linked.lost_python_codes == 1);
}

TEST_CASE("Frames of the interpreter are folded between lines of Python, and stay where an event happened") {
  Tree tree;
  const std::uint32_t start = tree.native(tree.native(0, kMain), kEval);
  const std::uint32_t module = tree.python(start, 1, 0);
  const std::uint32_t sort = tree.native(tree.native(tree.native(module, kEval), kCall), kSort);
  const std::uint32_t work = tree.python(tree.native(tree.native(sort, kCall), kEval), 2, 0);
  const std::uint32_t resize = tree.native(tree.native(work, kEval), kResize);
  const std::uint32_t in_eval = tree.native(work, kEval);
  SECTION("all are shown on request") {
    const LinkedTree linked = tree.link(false);
    CHECK(stack_of(linked, resize) == "n5 n2 work:10 n2 n3 n4 n3 n2 <module>:10 n2 n1");
  }
  SECTION("folded") {
    const LinkedTree linked = tree.link(true);
    CHECK(stack_of(linked, resize) == "n5 work:10 n4 <module>:10 n1");
    CHECK(stack_of(linked, in_eval) == "n2 work:10 n4 <module>:10 n1");
    CHECK(stack_of(linked, sort) == "n4 <module>:10 n1");
    for (std::uint32_t node = 1; node < linked.nodes.size(); ++node) CHECK(linked.nodes[node].parent < node);
  }
}

TEST_CASE("Stacks without Python keep the frames of the interpreter") {
  Tree tree;
  const std::uint32_t without = tree.native(tree.native(tree.native(0, kMain), kEval), kResize);
  tree.python(0, 1, 0);
  CHECK(stack_of(tree.link(true), without) == "n5 n2 n1");
  tree.definitions.nodes.pop_back();  // nor is anything asked for without any line of Python
  --tree.definitions.node_count;
  CHECK(stack_of(tree.link(true), without) == "n5 n2 n1");
  CHECK(tree.link(true).python_symbols == nullptr);
}

TEST_CASE("Folding keeps the reason of truncated stacks, and survives circles") {
  Tree tree;
  const std::uint32_t root =
      tree.add(0, raw(ModuleId::kTruncationRoot), static_cast<std::uint64_t>(Truncation::kMaxDepth));
  const std::uint32_t work = tree.python(tree.native(root, kEval), 2, 0);
  const std::uint32_t resize = tree.native(tree.native(work, kEval), kResize);
  const std::uint32_t circle = tree.native(0, kEval);
  const std::uint32_t inner = tree.python(circle, 2, 0);
  tree.definitions.nodes[circle].parent = inner;
  const LinkedTree linked = tree.link(true);
  CHECK(stack_of(linked, resize) == "n5 work:10 max_depth");
  CHECK(linked.circular_nodes == 1);
  for (std::uint32_t node = 1; node < linked.nodes.size(); ++node) CHECK(linked.nodes[node].parent < node);
}
