// The stacks of a profile with names, as the exporters need them: text is clean UTF-8, each table entry is unique,
// and a truncated or missing stack has a frame for that ("[no stack]"), so that every total is complete.
//
//   locations   one for each code address in use; its `lines` are innermost first: inlined functions, then the
//               function itself
//   nodes       the call tree of the profile; a stack is a node and its parents
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/model/profile.h"

namespace heapprof::exporter {

struct StackTable {
  struct Function {
    std::string name;          ///< never empty: "libfoo.so+0x1234" without a symbol
    std::string file;          ///< empty: unknown
    std::uint32_t module = 0;  ///< in modules
  };
  struct Line {
    std::uint32_t function = 0;
    std::uint32_t line = 0;  ///< 0: unknown
    bool inlined = false;    ///< into the next line outwards
  };
  struct Location {
    std::uint32_t module = 0;   ///< in modules; 0: code of no object
    std::uint64_t address = 0;  ///< of the call, in memory; 0: not code
    std::uint64_t offset = 0;   ///< of the call, in the module's file
    std::vector<Line> lines;    ///< never empty
  };

  const model::Profile* profile = nullptr;
  std::string program;  ///< file name of the executable
  std::string command;
  std::vector<std::string> modules;  ///< paths, by Profile::modules
  std::vector<Function> functions;
  std::vector<Location> locations;
  std::vector<std::uint32_t> location_of_node;  ///< by Profile::nodes; kNoIndex: no frame of its own
  std::vector<std::uint32_t> stacks;            ///< nodes with a cost, ascending

  /// Calls `visit(location)` for each location of a stack, innermost first; at least once.
  template <typename Visit>
  void for_each_location(std::uint32_t node, const Visit& visit) const {
    do {
      if (location_of_node[node] != model::kNoIndex) visit(location_of_node[node]);
      node = profile->nodes[node].parent;
    } while (node != 0);
  }
  /// Calls `visit(location, line)` for each frame of a stack, innermost first; `line` indexes Location::lines.
  template <typename Visit>
  void for_each_frame(std::uint32_t node, const Visit& visit) const {
    for_each_location(node, [&](std::uint32_t location) {
      for (std::uint32_t line = 0; line < locations[location].lines.size(); ++line) visit(location, line);
    });
  }
};

/// Adds functions to a StackTable, each one once.
class FunctionTable {
 public:
  explicit FunctionTable(StackTable& table) : table_(table) {}
  /// The index of the function in StackTable::functions.
  std::uint32_t number(const StackTable::Function& function);

 private:
  StackTable& table_;
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> index_;
};

/// The costs, in their order in formats with several costs.
struct CostColumn {
  const char* name;         ///< "peak_space"
  const char* unit;         ///< "bytes" or "count"
  const char* description;  ///< "bytes live at the peak"
  std::uint64_t model::Costs::*figure;
};
std::span<const CostColumn> cost_columns();

/// The description; with --live-at it names that moment instead of the peak: "bytes live at 1.66 s".
std::string description_of(const CostColumn& column, const model::Profile& profile);

/// A frame as valgrind's tools write it: "0x1234: name (file.c:12)"; without a source file "... (in
/// /path/of/module)".
std::string frame_label(const StackTable& table, std::uint32_t location, std::uint32_t line);

/// Appends `text`, which must be clean UTF-8, as a JSON string with quotes.
void append_json(std::string& out, std::string_view text);

}  // namespace heapprof::exporter
