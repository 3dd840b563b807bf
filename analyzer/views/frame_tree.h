// The call tree of a profile by name, as all views see it: a node is a function, a source line or a module below its
// callers. Inlined functions are nodes of their own, and equal frames below one caller are one node.
//
// Each stack has two places in this tree. Its leaf is its innermost frame, such as operator new. Its site is the node
// of its call site (findings/call_sites.h): the innermost frame that is no helper and not of a standard library or
// the runtime. What a function, line or module costs itself is the sum of the stacks whose site is there, so that the
// figures of all views add up to the same totals as those of call sites.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/findings/code_frames.h"
#include "analyzer/findings/helpers.h"
#include "analyzer/model/profile.h"

namespace heapprof::views {

/// What a frame is known by.
enum class Level { kFunction, kLine, kModule };

using findings::Scope;

struct FrameNode {
  std::uint32_t parent = 0;
  std::uint32_t key = model::kNoIndex;  ///< below FrameTree::key_count(); kNoIndex: the root
  findings::FrameRef frame;             ///< one of the frames of this node; the root has none
  bool outermost = true;                ///< no caller has the same key
};

class FrameTree {
 public:
  FrameTree(const findings::CodeFrames& frames, const findings::Helpers& helpers, Level level,
            Scope scope = Scope::kAll);

  /// Parents come before their children; node 0 is the root.
  const std::vector<FrameNode>& nodes() const noexcept { return nodes_; }
  std::uint32_t key_count() const noexcept { return key_count_; }
  const findings::CodeFrames& frames() const noexcept { return frames_; }
  Level level() const noexcept { return level_; }
  /// By node of the profile, the node of its site; 0: it has none.
  const std::vector<std::uint32_t>& site_of_stack() const noexcept { return site_of_stack_; }

  /// For each node, the costs of the stacks whose site it is.
  std::vector<model::Costs> at_sites() const { return placed(site_of_stack_); }
  /// For each node, the costs of the stacks that end in it or below it.
  std::vector<model::Costs> below_leaves() const { return summed(placed(leaf_of_stack_)); }
  /// For each node, the costs of the stacks whose site is it or below it.
  std::vector<model::Costs> below_sites() const { return summed(at_sites()); }

 private:
  std::uint32_t key_of(findings::FrameRef frame) const;
  void add_stacks(const findings::Helpers& helpers);
  std::uint32_t nearest_above(std::uint32_t node, std::uint32_t key) const;
  void mark_recursion();
  std::vector<model::Costs> placed(const std::vector<std::uint32_t>& node_of_stack) const;
  std::vector<model::Costs> summed(std::vector<model::Costs> costs) const;

  const findings::CodeFrames& frames_;
  const Level level_;
  const Scope scope_;
  std::uint32_t key_count_ = 0;
  std::vector<FrameNode> nodes_;
  std::vector<std::uint32_t> leaf_of_stack_;  ///< by node of the profile
  std::vector<std::uint32_t> site_of_stack_;  ///< by node of the profile
};

}  // namespace heapprof::views
