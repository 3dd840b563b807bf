// Each stack that allocated has a frontier: its innermost frame that is not skipped. A round
//
//   1. moves the frontiers past the helpers that the previous round found,
//   2. sums, by function, the bytes of the stacks whose frontier has reached it (Tally),
//   3. examines the callers of the functions that a frontier stands on and that meet the first two conditions.
//
// Frontiers only move outwards, so all rounds together visit each frame of a stack's inner part about once.
#include "analyzer/findings/helpers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/findings/tree_walk.h"

namespace heapprof::findings {
namespace {

constexpr std::uint32_t kNone = model::kNoIndex;
constexpr unsigned kMaxRounds = 16;
constexpr unsigned kCallerLevels = 3;

/// A function that does nothing but call another one allocates at least this share of its bytes through it.
constexpr double kThinShare = 0.9;
/// A function with an allocator's name is no helper if it allocates less than this share itself.
constexpr double kMinNamedShare = 0.5;
constexpr double kMaxCallerShare = 0.5;
/// A caller whose blocks are kept: this share of them is never freed.
constexpr double kKeptShare = 0.9;
/// If more than this share of the program's blocks is never freed, nothing follows from what is kept.
constexpr double kMaxProgramKept = 0.5;

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Blocks that were not merely moved by a realloc.
std::uint64_t blocks_of(const model::StackTotals& totals) {
  return totals.allocations - std::min(totals.moved_blocks, totals.allocations);
}

/// What was allocated in a function itself or through helpers.
struct Tally {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t examined_bytes = 0;  ///< `bytes` when its callers were examined last
  std::array<std::uint32_t, Helpers::kMaxPositions> positions;
  std::uint32_t position_count = 0;  ///< beyond kMaxPositions: more than fit
};

/// What one caller allocated through a function.
struct CallerTally {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
  std::uint64_t left = 0;
};

class HelperSearch {
 public:
  /// `skipped`, by function, may change between calls.
  HelperSearch(const CodeFrames& frames, const std::vector<std::uint8_t>& skipped)
      : frames_(frames), nodes_(frames.profile().nodes), skipped_(skipped), below_bytes_(frames.functions().size()),
        tallies_(frames.functions().size()), stamp_(frames.functions().size(), kNone) {
    sum_below();
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      const model::StackTotals totals = totals_of(node);
      if (totals.allocations == 0) continue;
      program_blocks_ += blocks_of(totals);
      program_left_ += totals.left_blocks;
      fronts_.push_back({node, node, 0});
    }
  }

  /// Starts again with the helpers that are known: by name and by pattern.
  void restart() {
    std::fill(tallies_.begin(), tallies_.end(), Tally{});
    std::fill(stamp_.begin(), stamp_.end(), kNone);
    for (Front& front : fronts_) {
      front.at = front.node;
      front.index = 0;
      if (settle(front)) move(front);
    }
  }

  /// Whether a function with an allocator's name allocates mostly through others.
  bool is_misnamed(std::uint32_t function) const {
    return below_bytes_[function] != 0 && share(tallies_[function].bytes, below_bytes_[function]) < kMinNamedShare;
  }

  /// Helpers by structure that follow from those found so far. Empty: there are no more.
  std::vector<Helper> find_more() {
    std::vector<std::uint8_t> candidate(tallies_.size(), 0);
    bool any = false;
    for (std::uint32_t function = 0; function < tallies_.size(); ++function) {
      candidate[function] = is_candidate(function);
      any |= candidate[function] != 0;
    }
    std::vector<Helper> found;
    if (!any) return found;
    const std::array<CallerList, kCallerLevels> callers = callers_of(candidate);
    for (std::uint32_t function = 0; function < tallies_.size(); ++function) {
      if (candidate[function] == 0) continue;
      tallies_[function].examined_bytes = tallies_[function].bytes;
      if (auto helper = examine(function, callers)) found.push_back(*helper);
    }
    return found;
  }

  /// Moves the frontiers that stand on a function which is skipped now.
  void advance() {
    for (Front& front : fronts_) {
      if (front.at == kNone || skipped_[function_at(front)] == 0) continue;
      // Functions of the run that were counted before must not be counted twice.
      Front again{front.node, front.node, 0};
      settle(again);
      for (; again.at != front.at || again.index != front.index; step(again)) stamp_[function_at(again)] = front.node;
      stamp_[function_at(front)] = front.node;
      step(front);
      move(front);
    }
  }

  const Tally& tally(std::uint32_t function) const { return tallies_[function]; }
  std::uint64_t below_bytes(std::uint32_t function) const { return below_bytes_[function]; }

 private:
  /// A frame of the stack `node`: frame `index` of the node `at`; at == kNone: beyond the outermost frame.
  struct Front {
    std::uint32_t node;
    std::uint32_t at;
    std::uint32_t index;
  };
  struct Caller {
    std::uint32_t function;  ///< that is called
    std::uint32_t caller;
    CallerTally tally;
  };
  using CallerList = std::vector<Caller>;  // by function

  model::StackTotals totals_of(std::uint32_t node) const { return frames_.profile().whole_of(node); }

  /// Skips nodes without code. False: there is no further frame.
  bool settle(Front& front) const {
    while (front.at != kNone && (front.at == 0 || nodes_[front.at].address == model::kNoIndex)) {
      front.at = front.at == 0 ? kNone : nodes_[front.at].parent;
      front.index = 0;
    }
    return front.at != kNone;
  }
  void step(Front& front) const {
    const std::uint32_t address = nodes_[front.at].address;
    if (address != model::kNoIndex && ++front.index < frames_.functions_at(address).size()) return;
    front.at = front.at == 0 ? kNone : nodes_[front.at].parent;
    front.index = 0;
    settle(front);
  }
  std::uint32_t function_at(const Front& front) const {
    return frames_.functions_at(nodes_[front.at].address)[front.index];
  }

  /// Counts the frames from `front` on, up to the first one that is not skipped, where it stops.
  void move(Front& front) {
    const model::StackTotals totals = totals_of(front.node);
    for (; front.at != kNone; step(front)) {
      const std::uint32_t function = function_at(front);
      if (stamp_[function] != front.node) {
        stamp_[function] = front.node;
        Tally& tally = tallies_[function];
        tally.bytes += totals.allocated_bytes;
        tally.blocks += totals.allocations;
        add_position(tally, front);
      }
      if (skipped_[function] == 0) return;
    }
  }

  /// A position is a source line, or the address if that is unknown.
  void add_position(Tally& tally, const Front& front) const {
    if (tally.position_count > Helpers::kMaxPositions) return;
    const std::uint32_t address = nodes_[front.at].address;
    const symbols::SourceFrame* const source = frames_.source_of({address, front.index});
    const std::uint32_t position =
        source != nullptr && source->line > 0 ? frames_.lines_at(address)[front.index] * 2 : address * 2 + 1;
    const auto end = tally.positions.begin() + tally.position_count;
    if (std::find(tally.positions.begin(), end, position) != end) return;
    if (tally.position_count < Helpers::kMaxPositions) tally.positions[tally.position_count] = position;
    ++tally.position_count;
  }

  /// The bytes allocated in and below each function; recursion counts once.
  void sum_below() {
    struct Open {
      std::uint64_t bytes_before = 0;
      std::uint32_t depth = 0;
    };
    std::vector<Open> open(below_bytes_.size());
    std::uint64_t bytes = 0;
    walk_tree(
        nodes_,
        [&](std::uint32_t node) {
          if (const std::uint32_t address = nodes_[node].address; address != model::kNoIndex)
            for (const std::uint32_t function : frames_.functions_at(address))
              if (open[function].depth++ == 0) open[function].bytes_before = bytes;
          bytes += totals_of(node).allocated_bytes;
        },
        [&](std::uint32_t node) {
          if (const std::uint32_t address = nodes_[node].address; address != model::kNoIndex)
            for (const std::uint32_t function : frames_.functions_at(address))
              if (--open[function].depth == 0) below_bytes_[function] += bytes - open[function].bytes_before;
        });
  }

  bool is_candidate(std::uint32_t number) const {
    const Tally& tally = tallies_[number];
    const Function& function = frames_.functions()[number];
    return skipped_[number] == 0 && !function.is_main && tally.blocks != 0 && tally.bytes != tally.examined_bytes &&
           tally.position_count <= Helpers::kMaxPositions &&
           share(tally.bytes, below_bytes_[number]) >= Helpers::kMinDirectShare;
  }

  bool is_caller(std::uint32_t function) const {
    const Origin origin = frames_.functions()[function].origin;
    return origin != Origin::kStandard && origin != Origin::kRuntime;
  }

  /// By level (the callers, their callers, ...), what each candidate allocated for each of them.
  std::array<CallerList, kCallerLevels> callers_of(const std::vector<std::uint8_t>& candidate) const {
    std::array<std::unordered_map<std::uint64_t, CallerTally, ChosenKeyHash>, kCallerLevels> sums;
    for (const Front& front : fronts_) {
      if (front.at == kNone) continue;
      const std::uint32_t function = function_at(front);
      if (candidate[function] == 0) continue;
      const model::StackTotals totals = totals_of(front.node);
      std::uint32_t below = function;
      Front outer = front;
      for (auto& level : sums) {
        do step(outer);
        while (outer.at != kNone &&
               (function_at(outer) == below || function_at(outer) == function || !is_caller(function_at(outer))));
        if (outer.at == kNone) break;
        below = function_at(outer);
        CallerTally& tally = level[std::uint64_t{function} << 32 | below];
        tally.bytes += totals.allocated_bytes;
        tally.blocks += blocks_of(totals);
        tally.left += totals.left_blocks;
      }
    }
    std::array<CallerList, kCallerLevels> result;
    for (unsigned level = 0; level < kCallerLevels; ++level) {
      for (const auto& [key, tally] : sums[level])
        result[level].push_back({static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key), tally});
      std::sort(result[level].begin(), result[level].end(),
                [](const Caller& a, const Caller& b) { return a.function < b.function; });
    }
    return result;
  }

  std::optional<Helper> examine(std::uint32_t function, const std::array<CallerList, kCallerLevels>& callers) const {
    std::uint32_t min_callers = Helpers::kMinCallers;
    for (unsigned level = 0; level < kCallerLevels; ++level, min_callers *= 2) {
      std::uint32_t count = 0;
      std::uint32_t keep = 0;
      std::uint64_t largest = 0;
      std::uint64_t blocks = 0;
      std::uint64_t thin_bytes = 0;
      auto at = std::partition_point(callers[level].begin(), callers[level].end(),
                                     [&](const Caller& caller) { return caller.function < function; });
      for (; at != callers[level].end() && at->function == function; ++at) {
        const CallerTally& tally = at->tally;
        ++count;
        largest = std::max(largest, tally.blocks);
        blocks += tally.blocks;
        keep += tally.blocks != 0 && share(tally.left, tally.blocks) >= kKeptShare;
        if (share(tally.bytes, below_bytes_[at->caller]) >= kThinShare) thin_bytes += tally.bytes;
      }
      const bool keeps_itself =
          share(program_left_, program_blocks_) <= kMaxProgramKept && keep >= kKeptShare * count;
      const double largest_share = share(largest, blocks);
      if (count >= min_callers && !keeps_itself &&
          (largest_share <= kMaxCallerShare || count >= Helpers::kManyCallers * (1u << level)))
        return Helper{function,
                      Helper::Reason::kStructure,
                      tallies_[function].bytes,
                      below_bytes_[function],
                      tallies_[function].blocks,
                      count,
                      level + 1,
                      largest_share};
      if (share(thin_bytes, tallies_[function].bytes) < kThinShare) return std::nullopt;
    }
    return std::nullopt;
  }

  const CodeFrames& frames_;
  const std::vector<model::CallNode>& nodes_;
  const std::vector<std::uint8_t>& skipped_;
  std::vector<std::uint64_t> below_bytes_;  ///< by function
  std::vector<Tally> tallies_;              ///< by function
  std::vector<std::uint32_t> stamp_;        ///< by function: the stack that counted it last
  std::vector<Front> fronts_;               ///< of all stacks that allocated
  std::uint64_t program_blocks_ = 0;
  std::uint64_t program_left_ = 0;
};

}  // namespace

std::string explain(const Helper& helper) {
  switch (helper.reason) {
    case Helper::Reason::kName: return "named like an allocation function";
    case Helper::Reason::kPattern: return "named by --helper";
    case Helper::Reason::kStructure: break;
  }
  const auto percent = [](double part) { return std::to_string(std::lround(part * 100)) + " %"; };
  std::string callers = std::to_string(helper.callers) + " functions";
  if (helper.caller_level > 1) callers += " through others that do little else";
  return "called by " + callers + ", the largest of which has " + percent(helper.largest_caller_share) +
         " of its blocks; " + percent(share(helper.bytes, helper.below_bytes)) +
         " of the bytes allocated in and below it are allocated by itself or by helpers";
}

Helpers::Helpers(const CodeFrames& frames, const HelperOptions& options)
    : is_helper_(frames.functions().size()), skipped_(frames.functions().size()) {
  const std::span<const Function> functions = frames.functions();
  std::vector<Helper> found;
  const auto add = [&](const Helper& helper) {
    is_helper_[helper.function] = skipped_[helper.function] = 1;
    found.push_back(helper);
  };
  for (std::uint32_t number = 0; number < functions.size(); ++number) {
    const Function& function = functions[number];
    const bool is_library = function.origin == Origin::kStandard || function.origin == Origin::kRuntime;
    const std::string name = options.patterns.empty() ? std::string() : frames.name_of(number);
    if (std::any_of(options.patterns.begin(), options.patterns.end(),
                    [&](const NamePattern& matches) { return matches(name); }))
      add({.function = number, .reason = Helper::Reason::kPattern});
    else if (is_library) skipped_[number] = !is_callback_caller(function.name);
    else if (options.by_name && is_named_like_allocator(function.name))
      add({.function = number, .reason = Helper::Reason::kName});
  }

  HelperSearch search(frames, skipped_);
  search.restart();
  if (options.by_name) {
    bool any = false;
    std::erase_if(found, [&](const Helper& helper) {
      if (helper.reason != Helper::Reason::kName || !search.is_misnamed(helper.function)) return false;
      is_helper_[helper.function] = skipped_[helper.function] = 0;
      return any = true;
    });
    if (any) search.restart();
  }
  for (unsigned round = 0; options.by_structure && round < kMaxRounds; ++round) {
    const std::vector<Helper> more = search.find_more();
    if (more.empty()) break;
    for (const Helper& helper : more) add(helper);
    search.advance();
  }

  for (Helper& helper : found) {
    helper.bytes = search.tally(helper.function).bytes;
    helper.blocks = search.tally(helper.function).blocks;
    helper.below_bytes = search.below_bytes(helper.function);
    if (helper.blocks != 0) helpers_.push_back(helper);
  }
  std::stable_sort(helpers_.begin(), helpers_.end(),
                   [](const Helper& a, const Helper& b) { return a.bytes > b.bytes; });
}

}  // namespace heapprof::findings
