// Shared by the unwinder's tests: a call tree, and the comparison of a captured stack with the stacks of libunwind's
// local interface and glibc's backtrace().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "preload/arch/arch.h"
#include "preload/unwind/unwinder.h"

namespace unwind_test {

using namespace heapprof;

/// Replaces the recorder's call tree.
class Tree {
 public:
  struct Node {
    NodeId parent;
    ModuleId module;
    std::uint64_t offset;
    std::uint32_t flags;
    auto operator<=>(const Node&) const = default;
  };
  struct Module {
    std::uint64_t map_begin, map_end, load_bias;
    std::string build_id, path;
    bool main;
  };

  unwind::Definitions definitions() noexcept { return {this, &intern, &define_module}; }

  const Node& at(NodeId id) const { return nodes_.at(raw(id) - 1); }
  std::size_t size() const { return nodes_.size(); }
  /// All modules that were defined for any tree; each is defined once per process.
  static std::map<ModuleId, std::vector<Module>> modules();
  std::size_t interned = 0;  ///< number of calls

 private:
  static NodeId intern(void* context, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags);
  static void define_module(void* context, const unwind::ModuleInfo& module);

  std::vector<Node> nodes_;
  std::map<Node, NodeId> ids_;
};

/// A captured stack, innermost frame first. The addresses are those of the nodes: a byte of the call instruction, or
/// the address where a signal interrupted the frame.
struct Stack {
  std::vector<std::uint64_t> addresses;
  std::vector<bool> by_frame_pointer;
  Truncation reason = Truncation::kNone;
  NodeId node = NodeId::kNone;
};
Stack resolve(const Tree& tree, NodeId node);

/// A tree and an unwinder, for one thread.
struct Recorder {
  Tree tree;
  unwind::ThreadUnwinder unwinder{};

  Stack capture(const arch::EntryRegisters& entry) {
    return resolve(tree, unwinder.capture(entry, tree.definitions()));
  }
};

/// The stack as the oracle finds it (oracle_libunwind.cpp; oracle_glibc.cpp where there is no libunwind), beginning
/// with `entry`. Writes at most `room` addresses and returns their number. libunwind's version does not allocate.
std::size_t oracle_frames(const arch::EntryRegisters& entry, std::uint64_t* addresses, std::size_t room);
std::vector<std::uint64_t> oracle_stack(const arch::EntryRegisters& entry);
/// Compares as precisely as the oracle permits.
bool same_stack(const std::vector<std::uint64_t>& ours, const std::vector<std::uint64_t>& theirs);
/// The stack as glibc's backtrace() (libgcc) finds it: return addresses minus one; it does not mark signal frames.
std::vector<std::uint64_t> glibc_stack(const arch::EntryRegisters& entry);

std::string describe(const std::vector<std::uint64_t>& addresses);

/// How many stacks were compared, and how many differ.
struct Comparison {
  std::size_t stacks = 0;
  std::size_t frames = 0;
  std::size_t different = 0;
  std::string first_difference;
};

/// Acts as a hook: captures the stack of its caller and compares it with the oracle's. Differences are counted,
/// not asserted, because Catch allocates and throws.
class Hook {
 public:
  explicit Hook(Recorder& recorder) : recorder_(recorder) {}
  [[gnu::noinline]] void operator()() { compare(arch::entry_registers()); }
  void compare(const arch::EntryRegisters& entry);

  Comparison result;
  Stack last;
  bool compare_with_oracle = true;

 private:
  Recorder& recorder_;
};

}  // namespace unwind_test
