// Two walks over the call tree: the first sums what each function holds, the second finds out which of the functions
// that weigh most hold the same memory, and which of these is the inner one. Most programs have few distinct sets of
// such functions on their stacks, so the second walk sums by set (a bit for each function).
#include "analyzer/findings/keepers.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/findings/sum_below.h"
#include "analyzer/findings/tree_walk.h"

namespace heapprof::findings {
namespace {

/// Compared with each other at a time: one bit each.
constexpr std::size_t kMaxCompared = 64;

double capped_share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
}

/// What was allocated by a stack. Blocks of before a slice may be held without having been allocated in it.
Held allocated_by(const model::Costs& costs, const Held& held) {
  return {std::max(costs.allocated_bytes - std::min(costs.moved_bytes, costs.allocated_bytes), held.bytes),
          std::max(costs.allocations - std::min(costs.moved_blocks, costs.allocations), held.blocks)};
}

bool can_keep(const Function& function) {
  return function.origin != Origin::kStandard && function.origin != Origin::kRuntime && !function.is_main &&
         !function.is_start_up;
}

std::vector<Keeper> weigh_functions(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held) {
  struct Sums {
    Held held;
    Held allocated;
    Sums& operator+=(const Sums& other) {
      held += other.held;
      allocated += other.allocated;
      return *this;
    }
    Sums operator-(const Sums& other) const { return {held - other.held, allocated - other.allocated}; }
  };
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  std::vector<Keeper> keepers(frames.functions().size());
  sum_below(
      frames, keepers.size(), [](std::uint32_t function) { return function; },
      [&](std::uint32_t node) {
        return Sums{held[node], allocated_by(nodes[node].costs, held[node])};
      },
      [&](std::uint32_t function, const Sums& below, std::uint32_t) {
        keepers[function].held += below.held;
        keepers[function].allocated += below.allocated;
      });
  for (std::uint32_t function = 0; function < keepers.size(); ++function) {
    Keeper& keeper = keepers[function];
    keeper.function = function;
    keeper.bytes_share = capped_share(keeper.held.bytes, keeper.allocated.bytes);
    keeper.blocks_share = capped_share(keeper.held.blocks, keeper.allocated.blocks);
    keeper.weight = static_cast<double>(keeper.held.bytes) * keeper.bytes_share * keeper.blocks_share;
  }
  std::erase_if(keepers, [&](const Keeper& keeper) {
    return keeper.held.bytes == 0 || helpers.skips(keeper.function) ||
           !can_keep(frames.functions()[keeper.function]) || !frames.is_in_scope(frames.functions()[keeper.function]);
  });
  std::stable_sort(keepers.begin(), keepers.end(),
                   [](const Keeper& a, const Keeper& b) { return a.weight > b.weight; });
  return keepers;
}

/// What up to kMaxCompared functions hold in common, and how far inside the stacks they are.
class Overlaps {
 public:
  Overlaps(const CodeFrames& frames, const HeldByNode& held, const std::vector<Keeper>& compared) {
    const std::vector<model::CallNode>& nodes = frames.profile().nodes;
    largest_.fill(model::kNoIndex);
    std::vector<std::uint8_t> number(frames.functions().size(), kMaxCompared);
    for (std::size_t i = 0; i < compared.size(); ++i) number[compared[i].function] = static_cast<std::uint8_t>(i);
    std::unordered_map<std::uint64_t, std::uint64_t, ChosenKeyHash> bytes_of_set;
    std::array<std::vector<std::uint32_t>, kMaxCompared> depths;  // of the open frames, outermost first
    std::uint64_t set = 0;
    std::uint32_t depth = 0;
    const auto for_frames = [&](std::uint32_t node, auto&& visit) {
      if (const std::uint32_t address = nodes[node].address; address != model::kNoIndex) {
        const std::span<const std::uint32_t> functions = frames.functions_at(address);
        for (std::size_t i = functions.size(); i-- > 0;)
          if (const std::uint8_t one = number[functions[i]]; one != kMaxCompared) visit(one);
      }
    };
    walk_tree(
        nodes,
        [&](std::uint32_t node) {
          for_frames(node, [&](std::uint8_t one) {
            set |= std::uint64_t{1} << one;
            depths[one].push_back(++depth);
          });
          if (held[node].bytes == 0 || set == 0) return;
          bytes_of_set[set] += held[node].bytes;
          for (std::uint64_t rest = set; rest != 0; rest &= rest - 1) {
            const auto one = static_cast<std::size_t>(__builtin_ctzll(rest));
            depth_sum_[one] += static_cast<double>(depths[one].back()) * static_cast<double>(held[node].bytes);
            if (largest_[one] == model::kNoIndex || held[node].bytes > held[largest_[one]].bytes)
              largest_[one] = node;
          }
        },
        [&](std::uint32_t node) {
          for_frames(node, [&](std::uint8_t one) {
            depths[one].pop_back();
            --depth;
            if (depths[one].empty()) set &= ~(std::uint64_t{1} << one);
          });
        });
    for (const auto& [members, bytes] : bytes_of_set)
      for (std::uint64_t a = members; a != 0; a &= a - 1)
        for (std::uint64_t b = members; b != 0; b &= b - 1)
          common_[static_cast<std::size_t>(__builtin_ctzll(a))][static_cast<std::size_t>(__builtin_ctzll(b))] +=
              bytes;
  }

  /// Whether two functions hold the same memory.
  bool same(std::size_t a, std::size_t b) const {
    const std::uint64_t larger = std::max(common_[a][a], common_[b][b]);
    return static_cast<double>(common_[a][b]) >= kSameShare * static_cast<double>(larger);
  }
  /// The stack in which the function holds most.
  std::uint32_t largest(std::size_t function) const { return largest_[function]; }
  /// Whether `a`, which holds the same memory as `b`, is further inside.
  bool is_inner(std::size_t a, std::size_t b) const {
    return depth_sum_[a] * static_cast<double>(common_[b][b]) > depth_sum_[b] * static_cast<double>(common_[a][a]);
  }

 private:
  std::array<std::array<std::uint64_t, kMaxCompared>, kMaxCompared> common_{};  ///< bytes
  std::array<std::uint32_t, kMaxCompared> largest_{};                           ///< node
  std::array<double, kMaxCompared> depth_sum_{};                                ///< weighted by bytes
};

/// Sets the frames of `keeper`, whose function is in the stack `node`.
void find_frames(const CodeFrames& frames, std::uint32_t node, Keeper& keeper) {
  keeper.frame = keeper.own_caller = FrameRef{};
  const bool is_own = frames.functions()[keeper.function].origin == Origin::kOwn;
  for (const FrameRef frame : frames.stack(node)) {
    if (!keeper.frame.exists()) {
      if (frames.function_of(frame) == keeper.function) keeper.frame = frame;
    } else if (!is_own && frames.at(frame).origin == Origin::kOwn) {
      keeper.own_caller = frame;
      return;
    }
  }
}

/// The first `max` of `compared`; of several that hold the same memory the innermost one.
std::vector<Keeper> without_same(const CodeFrames& frames, const std::vector<Keeper>& compared,
                                 const Overlaps& overlaps, std::size_t max) {
  const auto is_built_in = [&](std::size_t one) { return frames.functions()[compared[one].function].is_built_in; };
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const auto same =
        std::find_if(chosen.begin(), chosen.end(), [&](std::size_t one) { return overlaps.same(one, i); });
    if (same == chosen.end()) {
      if (chosen.size() < max) chosen.push_back(i);
    } else if (compared[i].weight >= kSameShare * compared[*same].weight) {
      if (is_built_in(i) == is_built_in(*same) ? overlaps.is_inner(i, *same) : is_built_in(*same)) *same = i;
    }
  }
  std::vector<Keeper> result;
  for (const std::size_t i : chosen) {
    result.push_back(compared[i]);
    find_frames(frames, overlaps.largest(i), result.back());
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Keeper& a, const Keeper& b) { return a.weight > b.weight; });
  return result;
}

/// Of the functions of own code that hold kMinOwnShare of everything, the innermost one, with its frames; or none.
std::optional<Keeper> keeper_of_most(const CodeFrames& frames, const HeldByNode& held,
                                     const std::vector<Keeper>& all) {
  std::uint64_t total = 0;
  for (const Held& one : held) total += one.bytes;
  std::vector<Keeper> candidates;
  for (const Keeper& keeper : all)
    if (frames.functions()[keeper.function].origin == Origin::kOwn &&
        static_cast<double>(keeper.held.bytes) >= kMinOwnShare * static_cast<double>(total))
      candidates.push_back(keeper);
  if (candidates.empty()) return std::nullopt;
  // An inner function allocates less than its callers, or as much.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Keeper& a, const Keeper& b) { return a.allocated.bytes < b.allocated.bytes; });
  candidates.resize(std::min(candidates.size(), kMaxCompared));
  const Overlaps overlaps(frames, held, candidates);
  std::size_t innermost = 0;
  for (std::size_t i = 1; i < candidates.size(); ++i)
    if (candidates[i].allocated == candidates[innermost].allocated && overlaps.is_inner(i, innermost)) innermost = i;
  find_frames(frames, overlaps.largest(innermost), candidates[innermost]);
  return candidates[innermost];
}

}  // namespace

std::vector<Keeper> find_keepers(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held,
                                 std::size_t max) {
  const std::vector<Keeper> all = weigh_functions(frames, helpers, held);
  max = std::min(max, kMaxCompared / 2);
  // Functions that hold the same memory leave room for further ones.
  std::vector<Keeper> chosen;
  std::size_t next = 0;
  do {
    while (chosen.size() < kMaxCompared && next < all.size()) chosen.push_back(all[next++]);
    chosen = without_same(frames, chosen, Overlaps(frames, held, chosen), max);
  } while (chosen.size() < max && next < all.size());

  // Memory that a library allocates in many places is only held together by the program's own function.
  const std::optional<Keeper> most = keeper_of_most(frames, held, all);
  const auto holds_as_much = [&](const Keeper& keeper) {
    return frames.functions()[keeper.function].origin == Origin::kOwn &&
           static_cast<double>(keeper.held.bytes) >= kSameShare * static_cast<double>(most->held.bytes);
  };
  if (!most || max == 0 || std::any_of(chosen.begin(), chosen.end(), holds_as_much)) return chosen;
  if (chosen.size() == max) chosen.pop_back();
  chosen.push_back(*most);
  return chosen;
}

}  // namespace heapprof::findings
