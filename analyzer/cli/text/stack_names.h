// The frames of a profile's stacks by name: functions, files, lines, inlined functions. Only requested stacks are
// looked up, all at once.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyzer/base/base_name.h"
#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/model/profile.h"
#include "analyzer/symbols/symbolizer.h"

namespace heapprof::cli {

/// One line of a stack. Text comes from symbol tables and is not clean (render/utf8.h).
struct Frame {
  std::string function;  ///< empty: unknown
  std::string file;      ///< empty: unknown
  int line = 0;          ///< 0: unknown
  bool inlined = false;  ///< into the next outer frame
  bool guessed = false;  ///< found by frame pointer, without unwind information
  const model::Module* module = nullptr;
  std::uint64_t offset = 0;          ///< address in the module's file
  std::uint64_t function_begin = 0;  ///< begin of a function without name, in the module's file; 0: unknown
  std::uint64_t address = 0;         ///< in the recorded process
  std::string definition_file;       ///< of the function, if it is not `file` (symbols::SourceFrame); empty: it is
  int definition_line = 0;           ///< of a Python function (symbols::SourceFrame); 0: unknown

  /// `file`, if that is not known.
  const std::string& file_of_definition() const noexcept { return definition_file.empty() ? file : definition_file; }
};

/// Whether the frame is a line of Python.
inline bool is_python(const Frame& frame) { return frame.module != nullptr && frame.module->is_python; }

/// The frames of addresses that were looked up before, for the names of the call tree of one recording, which grows.
class KnownFrames {
 public:
  /// Null: the address was not looked up. Valid until the next add().
  const std::vector<symbols::SourceFrame>* find(const model::Module& module, std::uint64_t offset) const;
  /// Not added is what may have another name later: generated code without one, whose just-in-time compiler may write
  /// its perf map later; and lines of Python, whose definitions can follow, and which need no files.
  void add(const model::Module& module, std::uint64_t offset, std::vector<symbols::SourceFrame> frames);

 private:
  /// Path, build ID, and without one the length of the mapping: a file can be replaced while the program runs, and
  /// loaded again.
  using Key = std::tuple<std::string, std::string, std::uint64_t>;
  using Frames = std::unordered_map<std::uint64_t, std::vector<symbols::SourceFrame>, ChosenKeyHash>;
  static Key key_of(const model::Module& module);
  std::map<Key, Frames> by_module_;
};

class StackNames {
 public:
  StackNames(const model::Profile& profile, const symbols::Options& options);

  /// Looks up every frame of these stacks, except those in `known`, to which the others are added. Must be called at
  /// most once.
  void resolve(const std::vector<std::uint32_t>& nodes, KnownFrames* known = nullptr);

  /// The frames of a stack, innermost first. They have no names if resolve() was not called with this stack.
  std::vector<Frame> stack(std::uint32_t node) const;
  /// The frames of one node: inlined functions, then the function itself. Empty for a node without code.
  std::vector<Frame> frames_of_node(std::uint32_t node) const;
  /// The same of an address in Profile::addresses, with `guessed` false.
  std::vector<Frame> frames_of_address(std::uint32_t address) const;
  /// The frames of an address (in Profile::addresses), innermost first; empty if resolve() was not called with a
  /// stack that has it.
  std::span<const symbols::SourceFrame> sources_of(std::uint32_t address) const {
    const std::uint32_t resolved = resolved_of_address_[address];
    if (resolved == model::kNoIndex) return {};
    return resolved_[resolved];
  }
  /// Calls visit(node, key) for the nodes of a stack, innermost first. Nodes with equal keys have the same frames.
  /// Keys are below key_count().
  template <typename Visit>
  void for_each_node(std::uint32_t node, Visit&& visit) const {
    for (; node != 0; node = profile_.nodes[node].parent) {
      const model::CallNode& call = profile_.nodes[node];
      visit(node, call.address == model::kNoIndex ? 0 : call.address * 2 + (call.guessed ? 2 : 1));
    }
  }
  std::size_t key_count() const noexcept { return 2 * profile_.addresses.size() + 1; }

  /// The warnings of the lookup, one sentence each: first the share of unresolved addresses, then reasons and
  /// remedies.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  void look_up(const std::vector<symbols::CodeAddress>& wanted, KnownFrames* known);
  void warn_of_unresolved(const std::vector<symbols::CodeAddress>& wanted);

  const model::Profile& profile_;
  symbols::Options options_;
  std::vector<std::uint32_t> resolved_of_address_;  ///< by Profile::addresses: position in resolved_, or kNoIndex
  std::vector<std::vector<symbols::SourceFrame>> resolved_;
  std::vector<std::string> warnings_;
};

/// A symbolizer for the addresses of a profile, with the profile's numbers of modules.
symbols::Symbolizer symbolizer_of(const model::Profile& profile, const symbols::Options& options);

/// The name of an unresolved address: "libfoo.so+0x1234", or "0x7f..." if it is in no module. If the function's begin
/// is known, that offset is used, so that all frames of the function have one name.
std::string unresolved_name(const Frame& frame);

}  // namespace heapprof::cli
