#include "analyzer/render/flame_tree.h"

#include <algorithm>
#include <string_view>

#include "analyzer/base/base_name.h"
#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/render/utf8.h"

namespace heapprof::render {
namespace {

/// The last part of the path of a module. A path that ends in a slash has none and stays as it is.
std::string module_name(const std::string& path) { return path.ends_with('/') ? path : base_name(path); }

/// Appends a piece of a key, with its size, so that different pieces never make equal keys.
void append_key(std::string& key, std::string_view piece) {
  key += std::to_string(piece.size());
  key += ':';
  key += piece;
}

}  // namespace

FlameTree::Frame FlameTree::frame(const FlameFrame& frame) {
  std::string key;
  append_key(key, frame.function);
  append_key(key, frame.module);
  append_key(key, frame.file);
  key += frame.inlined ? 'i' : '-';
  const auto [function, new_function] =
      function_index_.try_emplace(key, static_cast<std::uint32_t>(functions_.size()));
  if (new_function) {
    functions_.push_back({.name = frame.function.empty() ? "??" : clean_utf8(frame.function),
                          .module = clean_utf8(module_name(frame.module)),
                          .file = clean_utf8(frame.file),
                          .inlined = frame.inlined});
  }
  const auto [found, new_frame] = frame_index_.try_emplace(std::uint64_t{function->second} << 32 | frame.line,
                                                           static_cast<Frame>(frames_.size()));
  if (new_frame) frames_.push_back({function->second, frame.line});
  return found->second;
}

FlameTree::Node FlameTree::child(Node parent, Frame frame) {
  const FrameData data = frames_[frame];
  const auto [found, is_new] =
      children_.try_emplace(std::uint64_t{parent} << 32 | data.function, static_cast<Node>(nodes_.size()));
  if (is_new) {
    nodes_.push_back(
        {.parent = parent, .function = data.function, .line = data.line, .several_lines = false, .self = 0});
  } else if (NodeData& node = nodes_[found->second]; node.line != data.line) {
    // The smallest known line is kept, so that the order of frames does not matter.
    if (node.line != 0 && data.line != 0) node.several_lines = true;
    if (node.line == 0 || (data.line != 0 && data.line < node.line)) node.line = data.line;
  }
  return found->second;
}

void FlameTree::add_stack(std::span<const Frame> outermost_first, std::uint64_t value) {
  Node node = kRoot;
  for (const Frame frame : outermost_first) node = child(node, frame);
  add(node, value);
}

namespace {

/// flamegraph.pl and inferno read a number before the value (` 12 34`) as a comparison. So a name must not end in a
/// blank and a number: the blank becomes a no-break space.
std::string folded_name(std::string text) {
  std::replace(text.begin(), text.end(), ';', ':');
  const std::size_t number = text.find_last_not_of("0123456789.");
  if (number + 1 < text.size() && number != std::string::npos && text[number] == ' ')
    text.replace(number, 1, "\xc2\xa0");
  return text;
}

}  // namespace

void write_folded(const FlameTree& tree, const TextSink& out, bool comparison) {
  const auto functions = tree.functions();
  const auto nodes = tree.nodes();

  // Functions with equal names have the same rank; ranks are in the order of names.
  std::vector<std::string> texts(functions.size());
  std::vector<std::string> sorted;
  sorted.reserve(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i) {
    texts[i] = folded_name(functions[i].name);
    sorted.push_back(texts[i]);
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::uint32_t> rank(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i)
    rank[i] = static_cast<std::uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), texts[i]) - sorted.begin());

  // The tree by names only.
  struct Folded {
    std::uint32_t rank;
    std::uint64_t self;
    std::uint64_t before;
    std::vector<std::uint32_t> children;
  };
  std::vector<Folded> folded(1);
  std::vector<std::uint32_t> folded_of(nodes.size(), 0);
  std::unordered_map<std::uint64_t, std::uint32_t, ChosenKeyHash> index;
  folded[0].self = nodes[0].self;
  folded[0].before = nodes[0].before;
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const std::uint32_t parent = folded_of[nodes[i].parent];
    const std::uint32_t name = rank[nodes[i].function];
    const auto [found, is_new] =
        index.try_emplace(std::uint64_t{parent} << 32 | name, static_cast<std::uint32_t>(folded.size()));
    if (is_new) {
      folded.push_back({name, 0, 0, {}});
      folded[parent].children.push_back(found->second);
    }
    folded[found->second].self += nodes[i].self;
    folded[found->second].before += nodes[i].before;
    folded_of[i] = found->second;
  }

  struct Visit {
    std::uint32_t node;
    std::size_t prefix_bytes;  ///< length of the line, up to and including this node's name
    std::size_t next_child;
  };
  std::string line;
  std::string text;
  const auto emit = [&](const Folded& stack) {
    if (stack.self == 0 && stack.before == 0) return;
    text.assign(line.empty() ? "??" : line);
    if (comparison) text.append(" ").append(std::to_string(stack.before));
    text.append(" ").append(std::to_string(stack.self)).append("\n");
    out(text);
  };
  const auto by_name = [&](std::uint32_t a, std::uint32_t b) { return folded[a].rank < folded[b].rank; };
  std::vector<Visit> path{{0, 0, 0}};
  std::sort(folded[0].children.begin(), folded[0].children.end(), by_name);
  emit(folded[0]);
  while (!path.empty()) {
    Visit& visit = path.back();
    line.resize(visit.prefix_bytes);
    if (visit.next_child == folded[visit.node].children.size()) {
      path.pop_back();
      continue;
    }
    const std::uint32_t child = folded[visit.node].children[visit.next_child++];
    if (!line.empty()) line += ';';
    line += sorted[folded[child].rank];
    emit(folded[child]);
    std::sort(folded[child].children.begin(), folded[child].children.end(), by_name);
    path.push_back({child, line.size(), 0});
  }
}

}  // namespace heapprof::render
