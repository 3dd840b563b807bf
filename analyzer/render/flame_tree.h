// A call tree of named frames with values: the data of a flame graph.
//
//   FlameTree tree;
//   const auto main = tree.frame({.function = "main", .module = "demo", .file = "demo.c", .line = 12});
//   const auto read = tree.frame({.function = "read_all", .module = "demo"});
//   tree.add_stack(std::array{main, read}, 4096);          // outermost first
//   write_folded(tree, sink);
//
// Memory: about 70 bytes per node, and the text of distinct frames.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/render/text_sink.h"

namespace heapprof::render {

/// One frame of a stack. Names may have any bytes; an empty function is shown as "??".
struct FlameFrame {
  std::string function{};
  std::string module{};    ///< path or name; only the last part of a path is shown
  std::string file{};      ///< empty: unknown
  std::uint32_t line = 0;  ///< of the call; 0: unknown
  bool inlined = false;    ///< inlined into the next outer frame
};

/// Frames below one parent are one node if function, module, file and inlining are equal; their lines may differ.
class FlameTree {
 public:
  using Frame = std::uint32_t;
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;

  /// The number of `frame`. Equal frames have the same number.
  Frame frame(const FlameFrame& frame);

  /// The node of `frame` below `parent`, which is created if it does not exist.
  Node child(Node parent, Frame frame);

  /// Adds `value` to the self value of `node`.
  void add(Node node, std::uint64_t value) { nodes_[node].self += value; }

  /// The same for the earlier trace of a comparison. add() is for the later trace.
  void add_before(Node node, std::uint64_t value) { nodes_[node].before += value; }

  /// Adds `value` to the node of a stack; of an empty stack, to the root.
  void add_stack(std::span<const Frame> outermost_first, std::uint64_t value);

  struct Function {
    std::string name;    ///< clean UTF-8, never empty
    std::string module;  ///< last part of the path, clean; may be empty
    std::string file;
    bool inlined;
  };
  struct NodeData {
    Node parent;             ///< smaller than the node's number; the root is its own parent
    std::uint32_t function;  ///< index into functions(); unused in the root
    std::uint32_t line;      ///< 0: unknown
    bool several_lines;      ///< `line` is one of several
    std::uint64_t self;
    std::uint64_t before = 0;  ///< in a comparison: what `self` was
  };
  std::span<const Function> functions() const noexcept { return functions_; }
  std::span<const NodeData> nodes() const noexcept { return nodes_; }

 private:
  struct FrameData {
    std::uint32_t function;
    std::uint32_t line;
  };
  std::vector<Function> functions_;
  std::vector<FrameData> frames_;
  std::vector<NodeData> nodes_{NodeData{}};
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> function_index_;
  std::unordered_map<std::uint64_t, Frame, ChosenKeyHash> frame_index_;  ///< function << 32 | line
  std::unordered_map<std::uint64_t, Node, ChosenKeyHash> children_;      ///< parent << 32 | function
};

/// Writes a line per stack, `outermost;...;innermost value`, for flamegraph.pl, inferno and speedscope, sorted
/// bytewise by frames. Stacks with equal names are one line; values of 0 are left out. In names, `;` is written as
/// `:`, and control characters as U+FFFD. A `comparison` has two values per line, before and after, as difffolded.pl
/// writes them and flamegraph.pl and inferno-flamegraph read them.
void write_folded(const FlameTree& tree, const TextSink& out, bool comparison = false);

}  // namespace heapprof::render
