// Stacks of a profile with names: functions, files, lines, inlined functions. Only the stacks asked for are
// looked up, all at once.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/symbols/symbolizer.h"

namespace heapprof::cli {

/// One line of a stack as it is shown. Text is as it came from symbol tables: not cleaned.
struct Frame {
  std::string function;              ///< empty: unknown
  std::string file;                  ///< empty: unknown
  int line = 0;                      ///< 0: unknown
  bool inlined = false;              ///< into the next frame outwards
  bool guessed = false;              ///< found without unwind information
  const model::Module* module = nullptr;
  std::uint64_t offset = 0;          ///< address in the module's file
  std::uint64_t function_begin = 0;  ///< of a function without name, likewise; 0: unknown
  std::uint64_t address = 0;         ///< absolute, when it ran
};

class StackNames {
 public:
  StackNames(const model::Profile& profile, const symbols::Options& options);

  /// Looks up every frame of these stacks. Call once.
  void resolve(const std::vector<std::uint32_t>& nodes);

  /// The frames of a stack, innermost first; of one that resolve() was not given, without names.
  std::vector<Frame> stack(std::uint32_t node) const;
  /// The frames of one node alone: what was inlined there, then the function itself. Empty where the node
  /// stands for no code.
  std::vector<Frame> frames_of_node(std::uint32_t node) const;
  /// Calls visit(node, place) for the nodes of a stack, innermost first. Nodes of one place have the same frames.
  template <typename Visit>
  void for_each_node(std::uint32_t node, Visit&& visit) const {
    for (; node != 0; node = profile_.nodes[node].parent)
      visit(node, profile_.nodes[node].address * 2 + (profile_.nodes[node].guessed ? 1 : 0));
  }

  /// What the look-up met, sentences: first which share of the places has no name, if any; then the reasons, and what
  /// to do.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }

 private:
  void count_unnamed(const std::vector<symbols::CodeAddress>& wanted);

  const model::Profile& profile_;
  symbols::Options options_;
  std::vector<std::uint32_t> resolved_of_address_;   ///< by Profile::addresses: position in resolved_, or kNoIndex
  std::vector<std::vector<symbols::SourceFrame>> resolved_;
  std::vector<std::string> warnings_;
};

/// What looks up the addresses of a profile, its modules numbered as there.
symbols::Symbolizer symbolizer_of(const model::Profile& profile, const symbols::Options& options);

/// "libfoo.so+0x1234", or "0x7f..." of code of no object. Of a function without name, if it is known where that begins,
/// its begin: then all its frames are of one name.
std::string unresolved_name(const Frame& frame);
/// The last part of a path.
std::string base_name(const std::string& path);

}  // namespace heapprof::cli
