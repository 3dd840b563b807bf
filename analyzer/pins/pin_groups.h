// Who pins memory: the figures of groups of stacks, and the pinned bytes by node of the call tree.
//
// R(g): bytes of a granule g; S(g): the groups that have a live block in it; v(T): sum of R(g) over all g that have
// live blocks, all of them of T.
//
//   alone(S)    = v({S})                           what could be returned if the blocks of S did not exist
//   shared(S)   = sum of R(g) / |S(g)| over the other granules that hold a block of S
//   overhead(S) = alone(S) + shared(S) - usable bytes of the blocks of S
//
// alone + shared is the Shapley value of S in the game v: over all groups it sums to the pinned bytes. Stacks are
// grouped first: of two stacks that always share their granules, each has alone = 0, but their group has all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "analyzer/model/profile.h"
#include "analyzer/pins/holder_sets.h"

namespace heapprof::pins {

/// A group whose blocks would have to go, too.
struct Companion {
  std::uint32_t group = 0;
  /// What could be returned in addition if its blocks did not exist, either: granules of the group that then have no
  /// block. 0: it only takes part in them.
  std::uint64_t completed_bytes = 0;
  friend bool operator==(const Companion&, const Companion&) = default;
};

struct PinGroup {
  std::uint32_t group = 0;  ///< its number
  LiveSum live;
  std::uint64_t alone_bytes = 0;
  std::uint64_t shared_bytes = 0;   ///< rounded
  std::int64_t overhead_bytes = 0;  ///< negative: the others have most of the free memory in its granules
  std::vector<Companion> with{};    ///< see add_companions(); empty until then
};

/// The groups that have live blocks, highest overhead first. `group_of_node`: for each node of the profile the number
/// of its group, below `group_count`.
std::vector<PinGroup> rank_groups(const HolderSets& sets_of_groups, const std::vector<LiveSum>& live_by_node,
                                  const std::vector<std::uint32_t>& group_of_node, std::size_t group_count);

/// Sets `with` of the first `count` groups: up to `max` groups, greedily. The next one is the group whose blocks,
/// together with those of the group and of the ones before, keep most bytes of the group's granules; while no single
/// further group completes a granule, the one that takes part in most of them.
void add_companions(const HolderSets& sets_of_groups, std::vector<PinGroup>& groups, std::size_t count,
                    std::size_t max);

/// The sum of all sets.
std::uint64_t pinned_bytes(const HolderSets& sets) noexcept;

/// The bytes of each granule at the lowest common ancestor of the stacks that keep it; by node of the profile. The
/// sum over a subtree is then v(all stacks of the subtree), for every node. `sets` are those of nodes.
std::vector<std::uint64_t> bytes_at_common_callers(const model::Profile& profile, const HolderSets& sets);

}  // namespace heapprof::pins
