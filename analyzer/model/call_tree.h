// Links the call tree of a profile from the trace's definitions.
//
// A trace may define equal frames as several nodes (two threads met a new stack at the same moment) and one object as
// several modules (unloaded and loaded again elsewhere); here equal ones become one. Nodes whose definition is lost
// are one truncation root, "definition_lost", so that damage stays visible.
//
// Between lines of Python, stacks have functions of the interpreter that only lead from one line to the next. They
// can be folded: a folded frame stays only where it is the innermost one of an event. Stacks without Python are left
// as they are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/trace/events/definitions.h"

namespace heapprof::model {

struct LinkedTree {
  std::vector<Module> modules;
  std::vector<CodeAddress> addresses;
  std::vector<CallNode> nodes;               ///< costs are zero
  std::vector<std::uint32_t> node_of_index;  ///< by dense index of the trace: index in `nodes`
  std::uint64_t lost_nodes = 0;              ///< used in the trace but not defined
  std::uint64_t circular_nodes = 0;          ///< that are their own ancestors: damage
  /// The frames of the module with is_python; null: there is none.
  std::shared_ptr<const symbols::ModuleSymbols> python_symbols;
  std::uint64_t lost_python_codes = 0;  ///< code objects of Python that are used but not defined
};

/// Which of some code addresses are of functions that only lead from one line of Python to the next (1, else 0), in
/// the order of the addresses. Those of Module::is_python and of code without an object are not asked for.
using FindFolded =
    std::function<std::vector<std::uint8_t>(const std::vector<Module>&, const std::vector<CodeAddress>&)>;

/// `definitions` must be complete: call it after the last batch was read. Without `find_folded` nothing is folded.
LinkedTree link_tree(const trace::Definitions& definitions, const FindFolded& find_folded = {});

}  // namespace heapprof::model
