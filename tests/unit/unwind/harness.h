// What the unwinder's tests share: a call tree that remembers everything, and the comparison of a captured
// stack with libunwind's local interface and with glibc's backtrace(), which know nothing of our rules.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "preload/arch/arch.h"
#include "preload/unwind/unwinder.h"

namespace unwind_test {

using namespace heapprof;

/// The double of the recorder's call tree.
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
  /// Announced so far, to any tree: each is announced once a process.
  static std::map<ModuleId, std::vector<Module>> modules();
  std::size_t interned = 0;  ///< calls

 private:
  static NodeId intern(void* context, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags,
                       std::uint64_t path);
  static void define_module(void* context, const unwind::ModuleInfo& module);

  std::vector<Node> nodes_;
  std::map<Node, NodeId> ids_;
};

/// A captured stack, innermost first. Addresses are as a node names them: that of the call instruction (or
/// a byte of it), or the interrupted one.
struct Stack {
  std::vector<std::uint64_t> addresses;
  std::vector<bool> guessed;
  Truncation reason = Truncation::kNone;
  NodeId node = NodeId::kNone;
};
Stack resolve(const Tree& tree, NodeId node);

/// The state of this thread's tests: a tree and an unwinder.
struct Recorder {
  Tree tree;
  unwind::ThreadUnwinder unwinder{};

  Stack capture(const arch::EntryRegisters& entry) {
    return resolve(tree, unwinder.capture(entry, tree.definitions()));
  }
};

/// What the oracle finds (oracle_libunwind.cpp; oracle_glibc.cpp where there is no libunwind), from the caller
/// of the function that called this one with `entry`. libunwind's first allocates nothing.
std::size_t oracle_frames(const arch::EntryRegisters& entry, std::uint64_t* addresses, std::size_t room);
std::vector<std::uint64_t> oracle_stack(const arch::EntryRegisters& entry);
/// Equal as far as the oracle can tell.
bool same_stack(const std::vector<std::uint64_t>& ours, const std::vector<std::uint64_t>& theirs);
/// What glibc's backtrace finds, that is libgcc: plain return addresses less one, no signal frames known.
std::vector<std::uint64_t> glibc_stack(const arch::EntryRegisters& entry);

std::string describe(const std::vector<std::uint64_t>& addresses);

/// Stacks compared since the last call, and differences found among them, described.
struct Comparison {
  std::size_t stacks = 0;
  std::size_t frames = 0;
  std::size_t different = 0;
  std::string first_difference;
};

/// What a hook does: captures the stack of whoever called the function that this is inlined into, and
/// compares it with the oracle's. Differences are counted, not asserted, because Catch allocates and throws.
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
