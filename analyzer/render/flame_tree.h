// Stacks merged from their outermost frames on, with a value each: what a flame graph shows.
//
//   FlameTree tree;
//   const auto main = tree.frame({.function = "main", .module = "demo", .file = "demo.c", .line = 12});
//   const auto read = tree.frame({.function = "read_all", .module = "demo"});
//   tree.add_stack(std::array{main, read}, 4096);          // outermost first
//   write_folded(tree, sink);
//
// Memory: about 70 bytes a node and the text of distinct frames.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/render/text_sink.h"


namespace heapprof::render {

/// One frame of a stack, as it is to be shown. Names may hold any bytes; an empty function is "??".
struct FlameFrame {
  std::string function{};
  std::string module{};     ///< path or name of the object; only its last part is drawn
  std::string file{};       ///< empty: unknown
  std::uint32_t line = 0;   ///< of the call in it, 0: unknown
  bool inlined = false;     ///< has no code of its own: inlined into the next frame outwards
};

/// Frames are one node when they agree in function, module, file and inlining below the same parent; calls
/// from several lines of one function are one node.
class FlameTree {
 public:
  using Frame = std::uint32_t;
  using Node = std::uint32_t;
  static constexpr Node kRoot = 0;

  /// A number for `frame`, the same for an equal one.
  Frame frame(const FlameFrame& frame);

  /// The node for `frame` called from `parent`; made if there is none.
  Node child(Node parent, Frame frame);

  /// Adds to what was allocated by `node` itself.
  void add(Node node, std::uint64_t value) { nodes_[node].self += value; }

  /// In a comparison, the same of the earlier trace; add() is for the later.
  void add_before(Node node, std::uint64_t value) { nodes_[node].before += value; }

  /// The same for a whole stack. An empty stack adds to the root.
  void add_stack(std::span<const Frame> outermost_first, std::uint64_t value);

  struct Function {
    std::string name;    ///< clean UTF-8, never empty
    std::string module;  ///< last part of the path, clean; may be empty
    std::string file;
    bool inlined;
  };
  struct NodeData {
    Node parent;             ///< smaller than the node's own number; the root is its own parent
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
  std::unordered_map<std::string, std::uint32_t> function_index_;
  std::unordered_map<std::uint64_t, Frame> frame_index_;  ///< function << 32 | line
  std::unordered_map<std::uint64_t, Node> children_;  ///< parent << 32 | function
};

/// One line a stack, `outermost;...;innermost value`, for flamegraph.pl, inferno or speedscope. Sorted
/// bytewise by frames; stacks that look the same are one line; values of 0 are left out. In names, `;` is
/// written as `:`; line feeds and the like as U+FFFD. In a comparison two values, before and after, as difffolded.pl
/// writes and flamegraph.pl and inferno-flamegraph read.
void write_folded(const FlameTree& tree, const TextSink& out, bool comparison = false);

}  // namespace heapprof::render
