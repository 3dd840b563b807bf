// What a trace can tell of blocks that were never released: whether their stack holds more and more of them, filled
// once and stayed, or releases its blocks as a rule and was only caught with a few of them at the end.
//
// Time is cut in kParts equal parts. What counts of each is the lowest sum that a stack held in it: work that comes
// and goes leaves it alone, a leak raises it part by part.
//
//   growing   rose in at least kLeastRises parts, the last of them in the last quarter, with at least kLeastBlocks
//             blocks: a few singletons made one after the other are no leak. And still holds most of that at the end
//   in use    did not grow, released more blocks than it left, and left none older than one that it released
//   kept      anything else: singletons, tables, caches that filled
//
// Ranked by bytes, of which those that grow weigh kGrowthWeight times as much, and those in use so much less: a leak
// comes before a cache of its size, and a few growing bytes not before all that stayed.
//
// One counter set for each stack that leaks, whatever the length of the trace.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "analyzer/model/profile.h"

namespace heapprof::model {

enum class Growth { kGrowing, kKept, kInUse };

struct LeakStory {
  static constexpr unsigned kParts = 16;
  std::array<std::uint64_t, kParts + 1> low_bytes{};  ///< by part the lowest sum live; the last: live at the end
  std::uint64_t first_ns = std::numeric_limits<std::uint64_t>::max();  ///< allocation of the oldest block left
  std::uint64_t last_ns = 0;                          ///< and of the youngest
  std::uint64_t smallest = std::numeric_limits<std::uint64_t>::max();  ///< sizes of the blocks left
  std::uint64_t largest = 0;
  std::uint64_t left_blocks = 0;
  std::uint64_t released_blocks = 0;
  std::uint64_t longest_life_ns = 0;                  ///< of those
  unsigned rises = 0;                                 ///< parts in which the lowest sum rose
  Growth growth = Growth::kKept;
};

/// What `bytes` count for where leaks are ranked.
constexpr double rank_weight(Growth growth, std::uint64_t bytes) noexcept {
  constexpr double kGrowthWeight = 64;
  const double weight = growth == Growth::kGrowing ? kGrowthWeight : growth == Growth::kInUse ? 1 / kGrowthWeight : 1;
  return static_cast<double>(bytes) * weight;
}

class LeakHistory {
 public:
  /// Follows the nodes of `profile` that leak, from `from_ns` to `to_ns`: when the program was active.
  LeakHistory(const Profile& profile, std::uint64_t from_ns, std::uint64_t to_ns)
      : from_ns_(from_ns), to_ns_(std::max(to_ns, from_ns + 1)), story_of_node_(profile.nodes.size(), kNoIndex) {
    for (std::size_t node = 0; node < profile.nodes.size(); ++node) {
      if (profile.nodes[node].costs.leaked_blocks == 0) continue;
      story_of_node_[node] = static_cast<std::uint32_t>(stories_.size());
      stories_.emplace_back();
    }
  }

  void allocated(std::uint32_t node, std::uint64_t size, std::uint64_t time_ns) {
    if (Followed* const stack = find(node)) {
      move_to(*stack, time_ns);
      stack->live += size;
    }
  }
  void released(std::uint32_t node, std::uint64_t size, std::uint64_t time_ns, std::uint64_t born_ns) {
    Followed* const stack = find(node);
    if (stack == nullptr) return;
    move_to(*stack, time_ns);
    stack->live -= size;
    std::uint64_t& low = stack->story.low_bytes[stack->part];
    low = std::min(low, stack->live);
    ++stack->story.released_blocks;
    stack->story.longest_life_ns = std::max(stack->story.longest_life_ns, time_ns - std::min(born_ns, time_ns));
  }
  void left(std::uint32_t node, std::uint64_t size, std::uint64_t born_ns) {
    Followed* const stack = find(node);
    if (stack == nullptr) return;
    LeakStory& story = stack->story;
    ++story.left_blocks;
    story.first_ns = std::min(story.first_ns, born_ns);
    story.last_ns = std::max(story.last_ns, born_ns);
    story.smallest = std::min(story.smallest, size);
    story.largest = std::max(story.largest, size);
  }
  /// After the last of them.
  void finish() {
    for (Followed& stack : stories_) {
      move_to(stack, to_ns_);
      stack.story.low_bytes[LeakStory::kParts] = stack.live;
      judge(stack.story);
    }
  }

  /// Of a node that leaks; after finish().
  const LeakStory& of(std::uint32_t node) const { return stories_[story_of_node_[node]].story; }

 private:
  static constexpr unsigned kLeastRises = 4;
  static constexpr std::uint64_t kLeastBlocks = 8;
  static constexpr std::uint64_t kLeastShare = 64;  // of what is live at the end: less is no rise

  struct Followed {
    LeakStory story;
    std::uint64_t live = 0;
    unsigned part = 0;
  };

  Followed* find(std::uint32_t node) noexcept {
    const std::uint32_t at = story_of_node_[node];
    return at == kNoIndex ? nullptr : &stories_[at];
  }

  void move_to(Followed& stack, std::uint64_t time_ns) const noexcept {
    const std::uint64_t at = std::clamp(time_ns, from_ns_, to_ns_) - from_ns_;
    __extension__ using Wide = unsigned __int128;
    const auto part = static_cast<unsigned>(
        std::min<Wide>(static_cast<Wide>(at) * LeakStory::kParts / (to_ns_ - from_ns_), LeakStory::kParts - 1));
    while (stack.part < part) stack.story.low_bytes[++stack.part] = stack.live;
  }

  void judge(LeakStory& story) const noexcept {
    const std::uint64_t end = story.low_bytes[LeakStory::kParts];
    const std::uint64_t least = std::max<std::uint64_t>(end / kLeastShare, 1);
    std::uint64_t high = story.low_bytes[0];
    unsigned latest = 0;
    for (unsigned part = 1; part <= LeakStory::kParts; ++part) {
      if (story.low_bytes[part] < high + least) continue;
      high = story.low_bytes[part];
      ++story.rises;
      latest = part;
    }
    if (story.rises >= kLeastRises && latest > LeakStory::kParts * 3 / 4 &&
        story.left_blocks + story.released_blocks >= kLeastBlocks && end >= high - high / 4) {
      story.growth = Growth::kGrowing;
      return;
    }
    const std::uint64_t oldest = to_ns_ - std::min(story.first_ns, to_ns_);
    if (story.released_blocks > story.left_blocks && oldest <= story.longest_life_ns) story.growth = Growth::kInUse;
  }

  std::uint64_t from_ns_;
  std::uint64_t to_ns_;
  std::vector<std::uint32_t> story_of_node_;
  std::vector<Followed> stories_;
};

}  // namespace heapprof::model
