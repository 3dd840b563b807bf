// The live mappings, as address ranges that do not overlap. munmap may remove the start, the end or the middle of a
// mapping; the rest keeps the identity of the mapping, so that pieces that are put back (munmap failed) are joined
// again.
//
// Changes are reported as changed(region, bytes, blocks): the bytes and blocks that the node of `region` gained or
// lost.
//
// What a call costs is bounded by what earlier calls have added, but for one: a munmap of everything that fails puts
// all back, and a trace can repeat it with each event. So put_back() has a limit:
//   steps of all calls of put_back() <= kMinSteps + kStepsPerCall * calls of insert() and take()
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace heapprof::replay {

/// A mapped range: a mapping or a piece of one.
struct Region {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t identity = 0;       ///< of its mapping; increases with each mapping
  std::uint32_t node = 0;           ///< dense index
  std::uint32_t flags = 0;          ///< kMap...
  std::uint32_t thread = 0;         ///< that called mmap
  std::uint64_t initial_bytes = 0;  ///< length of the mapping, before parts of it were removed
};

class MappingTable {
 public:
  /// A process has at most 65,530 mappings, unless vm.max_map_count is raised, and nearly every call is about one.
  static constexpr std::uint64_t kMinSteps = 1u << 20;
  static constexpr std::uint64_t kStepsPerCall = 16;

  /// Adds [begin, end). Precondition: nothing in it is mapped (call take() first). Reports no change.
  void insert(std::uint64_t begin, std::uint64_t end, std::uint32_t node, std::uint32_t flags,
              std::uint32_t thread = 0) {
    steps_left_ += kStepsPerCall;
    if (begin < end) regions_[begin] = {begin, end, ++identities_, node, flags, thread, end - begin};
  }
  /// Adds a region of another table, in the order of its for_each(). `last_identity`: of the other table.
  void restore(const Region& region, std::uint64_t last_identity) {
    regions_.emplace_hint(regions_.end(), region.begin, region);
    identities_ = last_identity;
  }

  /// Removes the mapped parts of [begin, end) and returns them.
  template <typename Changed>
  std::vector<Region> take(std::uint64_t begin, std::uint64_t end, Changed&& changed) {
    std::vector<Region> taken;
    steps_left_ += kStepsPerCall;
    if (begin >= end) return taken;
    auto at = regions_.upper_bound(begin);
    if (at != regions_.begin()) {
      --at;
      if (at->second.end <= begin) ++at;
    }
    while (at != regions_.end() && at->first < end) {
      const Region mapping = at->second;
      Region piece = mapping;
      if (piece.begin < begin) piece.begin = begin;
      if (piece.end > end) piece.end = end;
      at = regions_.erase(at);
      std::int64_t parts = 0;
      if (mapping.begin < piece.begin) {
        Region head = mapping;
        head.end = piece.begin;
        regions_.emplace_hint(at, head.begin, head);
        ++parts;
      }
      if (piece.end < mapping.end) {
        Region tail = mapping;
        tail.begin = piece.end;
        at = regions_.emplace_hint(at, tail.begin, tail);
        ++parts;
      }
      changed(piece, -static_cast<std::int64_t>(piece.end - piece.begin), parts - 1);
      taken.push_back(piece);
    }
    return taken;
  }

  /// Adds pieces again that take() returned, except where something else was mapped meanwhile. False: the limit is
  /// reached, and the rest of the pieces stays unmapped.
  template <typename Changed>
  [[nodiscard]] bool put_back(const std::vector<Region>& pieces, Changed&& changed) {
    for (const Region& piece : pieces) {
      std::uint64_t begin = piece.begin;
      while (begin < piece.end) {
        if (steps_left_ == 0) return false;
        --steps_left_;
        auto next = regions_.upper_bound(begin);
        if (next != regions_.begin()) {
          if (const std::uint64_t covered = std::prev(next)->second.end; covered > begin) {
            begin = covered;
            continue;
          }
        }
        Region gap = piece;
        gap.begin = begin;
        if (next != regions_.end() && next->first < gap.end) gap.end = next->first;
        begin = gap.end;
        join(gap, changed);
      }
    }
    return true;
  }

  std::size_t size() const noexcept { return regions_.size(); }
  /// The greatest identity so far.
  std::uint64_t last_identity() const noexcept { return identities_; }
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [begin, region] : regions_) visit(region);
  }

 private:
  /// Adds a piece and joins it with adjacent pieces of the same mapping.
  template <typename Changed>
  void join(Region piece, Changed&& changed) {
    const auto bytes = static_cast<std::int64_t>(piece.end - piece.begin);
    std::int64_t parts = 1;
    auto next = regions_.lower_bound(piece.begin);
    if (next != regions_.end() && next->first == piece.end && next->second.identity == piece.identity) {
      piece.end = next->second.end;
      next = regions_.erase(next);
      --parts;
    }
    if (next != regions_.begin()) {
      const auto before = std::prev(next);
      if (before->second.end == piece.begin && before->second.identity == piece.identity) {
        piece.begin = before->second.begin;
        regions_.erase(before);
        --parts;
      }
    }
    regions_[piece.begin] = piece;
    changed(piece, bytes, parts);
  }

  std::map<std::uint64_t, Region> regions_;
  std::uint64_t identities_ = 0;
  std::uint64_t steps_left_ = kMinSteps;  // of put_back()
};

}  // namespace heapprof::replay
