#include "analyzer/model/call_tree.h"

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "analyzer/model/index_table.h"
#include "common/trace_format.h"

namespace heapprof::model {
namespace {

constexpr const char* kDefinitionLost = "definition_lost";

/// The value of "truncated" in reports.
const char* name_of(std::uint64_t truncation) {
  if (truncation > static_cast<std::uint64_t>(Truncation::kNoMemory)) return "unknown";
  switch (static_cast<Truncation>(truncation)) {
    case Truncation::kMaxDepth: return "max_depth";
    case Truncation::kNoUnwindInfo: return "no_unwind_info";
    case Truncation::kBadRule: return "bad_rule";
    case Truncation::kBadAddress: return "bad_address";
    case Truncation::kUnknownStack: return "unknown_stack";
    case Truncation::kNested: return "nested";
    case Truncation::kNoMemory: return "no_memory";
    case Truncation::kNone: break;
  }
  return "unknown";
}

std::string to_hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  for (const char byte : bytes) {
    result += kDigits[static_cast<unsigned char>(byte) >> 4];
    result += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return result;
}

class Linker {
 public:
  explicit Linker(const trace::Definitions& definitions)
      : definitions_(definitions), address_table_(definitions.node_count), node_table_(definitions.node_count) {
    tree_.nodes.reserve(definitions.node_count);
    tree_.nodes.emplace_back();
    link_modules();
    link_nodes();
  }

  LinkedTree take() { return std::move(tree_); }

 private:
  static constexpr std::uint32_t kUnlinked = 0xffffffff;
  static constexpr std::uint32_t kLinking = 0xfffffffe;  // a descendant is being linked

  void link_modules() {
    tree_.modules.emplace_back();  // module 0: code of no object
    std::map<std::tuple<std::string, std::string, std::uint64_t>, std::uint32_t> known;
    for (const trace::ModuleDefinition& definition : definitions_.modules) {
      if (definition.id == ModuleId::kTruncationRoot || definition.id == ModuleId::kAnonymous) continue;
      const auto position = static_cast<std::uint32_t>(tree_.modules.size());
      const auto [at, fresh] =
          known.try_emplace({definition.path, definition.build_id, definition.map_bytes}, position);
      if (!module_of_id_.try_emplace(raw(definition.id), at->second).second) continue;  // defined twice
      if (!fresh) {
        ++tree_.modules[at->second].loads;
        continue;
      }
      Module module;
      module.path = definition.path;
      module.build_id = to_hex(definition.build_id);
      module.first_address = definition.first_address;
      module.map_bytes = definition.map_bytes;
      module.load_bias = definition.load_bias;
      module.is_main = definition.is_main;
      tree_.modules.push_back(std::move(module));
    }
  }

  std::uint32_t module_of(std::uint32_t id) {
    if (id == raw(ModuleId::kAnonymous)) return 0;
    const auto at = module_of_id_.find(id);
    if (at != module_of_id_.end()) return at->second;
    // One module for each lost id, so that equal offsets in different objects are not merged.
    Module lost;
    lost.lost = true;
    tree_.modules.push_back(lost);
    return module_of_id_[id] = static_cast<std::uint32_t>(tree_.modules.size() - 1);
  }

  std::uint32_t address_of(std::uint32_t module, std::uint64_t offset) {
    const CodeAddress wanted{module, offset};
    return address_table_.find_or_add(
        module, offset, [&](std::uint32_t at) { return tree_.addresses[at] == wanted; },
        [&] {
          tree_.addresses.push_back(wanted);
          return static_cast<std::uint32_t>(tree_.addresses.size() - 1);
        });
  }

  std::uint32_t child_of(std::uint32_t parent, std::uint32_t address) {
    return node_table_.find_or_add(
        parent, address,
        [&](std::uint32_t at) { return tree_.nodes[at].parent == parent && tree_.nodes[at].address == address; },
        [&] { return add_node(parent, address, tree_.nodes[parent].truncated); });
  }

  /// The root of the stacks that are truncated for this reason.
  std::uint32_t truncation_root(const char* truncated) {
    const auto [at, fresh] = truncation_roots_.try_emplace(truncated, 0);
    if (fresh) at->second = add_node(0, kNoIndex, truncated);
    return at->second;
  }

  std::uint32_t add_node(std::uint32_t parent, std::uint32_t address, const char* truncated) {
    CallNode node;
    node.parent = parent;
    node.address = address;
    node.truncated = truncated;
    tree_.nodes.push_back(node);
    return static_cast<std::uint32_t>(tree_.nodes.size() - 1);
  }

  void link_nodes() {
    const std::uint32_t count = definitions_.node_count;
    tree_.node_of_index.assign(count, kUnlinked);
    tree_.node_of_index[0] = 0;
    std::vector<std::uint32_t> chain;
    for (std::uint32_t first = 1; first < count; ++first) {
      std::uint32_t index = first;
      while (tree_.node_of_index[index] == kUnlinked) {
        tree_.node_of_index[index] = kLinking;
        chain.push_back(index);
        if (!is_defined(index)) break;
        index = definitions_.nodes[index].parent;
      }
      while (!chain.empty()) {
        index = chain.back();
        chain.pop_back();
        tree_.node_of_index[index] = link(index);
      }
    }
  }

  bool is_defined(std::uint32_t index) const {
    return index < definitions_.nodes.size() && definitions_.nodes[index].defined;
  }

  /// Adds the node at `index` to the tree. Its parent is linked, unless the trace is damaged.
  std::uint32_t link(std::uint32_t index) {
    if (!is_defined(index)) {
      ++tree_.lost_nodes;
      return truncation_root(kDefinitionLost);
    }
    const trace::NodeDefinition& node = definitions_.nodes[index];
    std::uint32_t parent = tree_.node_of_index[node.parent];
    if (parent == kLinking || parent == kUnlinked) {
      ++tree_.circular_nodes;
      parent = truncation_root(kDefinitionLost);
    }
    if (node.module == raw(ModuleId::kTruncationRoot)) return truncation_root(name_of(node.offset));
    const std::uint32_t child = child_of(parent, address_of(module_of(node.module), node.offset));
    tree_.nodes[child].guessed |= node.guessed;
    return child;
  }

  const trace::Definitions& definitions_;
  LinkedTree tree_;
  std::unordered_map<std::uint32_t, std::uint32_t> module_of_id_;
  IndexTable address_table_;
  IndexTable node_table_;
  std::map<std::string_view, std::uint32_t> truncation_roots_;
};

}  // namespace

LinkedTree link_tree(const trace::Definitions& definitions) { return Linker(definitions).take(); }

}  // namespace heapprof::model
