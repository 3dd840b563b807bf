#include "analyzer/model/call_tree.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/model/index_table.h"
#include "analyzer/model/python_frames.h"
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
  Linker(const trace::Definitions& definitions, const FindFolded& find_folded)
      : definitions_(definitions), address_table_(definitions.node_count), node_table_(definitions.node_count),
        python_(definitions.python) {
    tree_.nodes.reserve(definitions.node_count);
    tree_.nodes.emplace_back();
    link_modules();
    if (find_folded && has_python_nodes()) link_addresses(find_folded);
    link_nodes();
    if (python_module_ == kNoIndex) return;
    tree_.python_symbols = python_.symbols();
    tree_.lost_python_codes = python_.lost();
  }

  LinkedTree take() { return std::move(tree_); }

 private:
  static constexpr std::uint32_t kUnlinked = 0xffffffff;
  static constexpr std::uint32_t kLinking = 0xfffffffe;  // a descendant is being linked

  void link_modules() {
    tree_.modules.emplace_back();  // module 0: code of no object
    std::map<std::tuple<std::string, std::string, std::uint64_t>, std::uint32_t> known;
    for (const trace::ModuleDefinition& definition : definitions_.modules) {
      if (definition.id == ModuleId::kTruncationRoot || definition.id == ModuleId::kAnonymous ||
          definition.id == ModuleId::kPython)
        continue;
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
    if (id == raw(ModuleId::kPython)) return python_module();
    const auto at = module_of_id_.find(id);
    if (at != module_of_id_.end()) return at->second;
    // One module for each lost id, so that equal offsets in different objects are not merged.
    Module lost;
    lost.lost = true;
    tree_.modules.push_back(lost);
    return module_of_id_[id] = static_cast<std::uint32_t>(tree_.modules.size() - 1);
  }

  std::uint32_t python_module() {
    if (python_module_ != kNoIndex) return python_module_;
    Module module;
    module.path = python_module_path(definitions_.python);
    module.is_python = true;
    tree_.modules.push_back(std::move(module));
    return python_module_ = static_cast<std::uint32_t>(tree_.modules.size() - 1);
  }

  bool has_python_nodes() const {
    return std::ranges::any_of(definitions_.nodes, [](const trace::NodeDefinition& node) { return is_python(node); });
  }
  static bool is_python(const trace::NodeDefinition& node) {
    return node.defined && node.module == raw(ModuleId::kPython);
  }

  /// Adds the addresses of all nodes, and finds those that are folded.
  void link_addresses(const FindFolded& find_folded) {
    for (const trace::NodeDefinition& node : definitions_.nodes)
      if (node.defined && node.module != raw(ModuleId::kTruncationRoot)) address_of(node);
    std::vector<CodeAddress> asked;
    std::vector<std::uint32_t> positions;  // of these in addresses
    for (std::uint32_t at = 0; at < tree_.addresses.size(); ++at) {
      const std::uint32_t module = tree_.addresses[at].module;
      if (module == 0 || module == python_module_ || tree_.modules[module].lost) continue;
      asked.push_back(tree_.addresses[at]);
      positions.push_back(at);
    }
    for (const trace::NodeDefinition& node : definitions_.nodes)
      if (is_python(node) && is_defined(node.parent)) mark_evaluating(definitions_.nodes[node.parent]);
    const std::vector<std::uint8_t> found = find_folded(tree_.modules, asked);
    is_folded_.assign(tree_.addresses.size(), 0);
    for (std::size_t i = 0; i < asked.size(); ++i) is_folded_[positions[i]] = found[i];
    callers_.resize(definitions_.node_count);
  }

  /// `node` is the caller of a line of Python. One that could not be placed has no caller, or another line.
  void mark_evaluating(const trace::NodeDefinition& node) {
    if (node.module == raw(ModuleId::kTruncationRoot) || is_python(node)) return;
    if (const std::uint32_t module = module_of(node.module); module != 0)
      tree_.modules[module].evaluates_python = true;
  }

  std::uint32_t address_of(const trace::NodeDefinition& node) {
    return address_of(module_of(node.module), is_python(node) ? python_.unified(node.offset) : node.offset);
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
    } else if (folds() && node.parent != 0 && is_defined(node.parent)) {
      const Callers& callers = callers_[node.parent];
      parent = is_python(node) ? callers.of_python : callers.of_native;
    }
    if (node.module == raw(ModuleId::kTruncationRoot)) {
      const std::uint32_t root = truncation_root(name_of(node.offset));
      if (folds()) callers_[index] = {root, root, false};
      return root;
    }
    const std::uint32_t address = address_of(node);
    const std::uint32_t child = child_of(parent, address);
    tree_.nodes[child].guessed |= node.guessed;
    if (folds()) callers_[index] = callers_below(node, child, address);
    return child;
  }

  // Folding. A frame that is folded remains a node, for the events whose innermost frame it is, but its callees have
  // the callers of it as their callers: callees in Python always, others if the stack has Python further outside.

  struct Callers {
    std::uint32_t of_python = 0;  ///< the node that is the caller of a line of Python called by this node
    std::uint32_t of_native = 0;
    bool has_python = false;  ///< this node or one of its callers is a line of Python
  };

  bool folds() const noexcept { return !callers_.empty(); }

  Callers callers_below(const trace::NodeDefinition& node, std::uint32_t child, std::uint32_t address) const {
    const bool has_caller = node.parent != 0 && is_defined(node.parent);
    const Callers outer = has_caller ? callers_[node.parent] : Callers{};
    Callers callers{child, child, outer.has_python || is_python(node)};
    if (is_folded_[address] == 0) return callers;
    callers.of_python = has_caller ? outer.of_python : tree_.nodes[child].parent;
    if (callers.has_python) callers.of_native = outer.of_native;
    return callers;
  }

  const trace::Definitions& definitions_;
  LinkedTree tree_;
  std::unordered_map<std::uint32_t, std::uint32_t, ChosenKeyHash> module_of_id_;
  IndexTable address_table_;
  IndexTable node_table_;
  std::map<std::string_view, std::uint32_t> truncation_roots_;
  PythonFrames python_;
  std::uint32_t python_module_ = kNoIndex;
  std::vector<std::uint8_t> is_folded_;  // by address
  std::vector<Callers> callers_;         // by dense index; empty: nothing is folded
};

}  // namespace

LinkedTree link_tree(const trace::Definitions& definitions, const FindFolded& find_folded) {
  return Linker(definitions, find_folded).take();
}

}  // namespace heapprof::model
