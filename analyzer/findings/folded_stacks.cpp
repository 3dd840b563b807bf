#include "analyzer/findings/folded_stacks.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "analyzer/findings/call_sites.h"

namespace heapprof::findings {
namespace {

/// Folds the frames of a stack, outermost first: when a function occurs again, everything after its first occurrence
/// is left out.
class Folding {
 public:
  explicit Folding(const CodeFrames& frames) : frames_(frames), position_(frames.functions().size(), kNone) {}

  void add(const StackLine& line) {
    StackLine added = line;
    if (const std::uint32_t before = occurrence(line.frame); before != kNone)
      while (lines_.size() > before) {
        added.folded += 1 + lines_.back().folded;
        position_of(lines_.back().frame) = earlier_.back();
        lines_.pop_back();
        earlier_.pop_back();
      }
    earlier_.push_back(std::exchange(position_of(line.frame), static_cast<std::uint32_t>(lines_.size())));
    lines_.push_back(added);
  }

  /// The lines so far, outermost first; starts again.
  std::vector<StackLine> take() {
    for (const StackLine& line : lines_) position_of(line.frame) = kNone;
    earlier_.clear();
    return std::exchange(lines_, {});
  }

 private:
  static constexpr std::uint32_t kNone = model::kNoIndex;

  std::uint32_t& position_of(FrameRef frame) { return position_[frames_.function_of(frame)]; }

  /// The line of the frame's function, or kNone. Static functions of several files may have one name, and so one
  /// number: they are different ones. So may methods of several classes of a Python file. One function can have lines
  /// of several files, too.
  std::uint32_t occurrence(FrameRef frame) {
    std::uint32_t at = position_of(frame);
    while (at != kNone && are_different(frame, lines_[at].frame)) at = earlier_[at];
    return at;
  }

  bool are_different(FrameRef a, FrameRef b) const {
    const symbols::SourceFrame* const of_a = frames_.source_of(a);
    const symbols::SourceFrame* const of_b = frames_.source_of(b);
    if (of_a == nullptr || of_b == nullptr) return false;
    if (of_a->definition_line != of_b->definition_line && of_a->definition_line != 0 && of_b->definition_line != 0)
      return true;
    return !of_a->file.empty() && !of_b->file.empty() && of_a->file != of_b->file &&
           of_a->file_of_definition() != of_b->file_of_definition();
  }

  const CodeFrames& frames_;
  std::vector<std::uint32_t> position_;  ///< by function: its last one in lines_, or kNone
  std::vector<std::uint32_t> earlier_;   ///< by line: the one before it with a function of that number, or kNone
  std::vector<StackLine> lines_;
};

/// The lines of a stack, outermost first, and the position of its site, counted from the innermost frame.
std::vector<StackLine> outermost_first(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node,
                                       Folding& folding) {
  const std::vector<FrameRef> stack = frames.stack(node);
  const FrameRef site = call_site_of(frames, helpers, node);
  const std::size_t site_at = static_cast<std::size_t>(std::find(stack.begin(), stack.end(), site) - stack.begin());
  // The outermost start-up frames, then main.
  std::size_t end = stack.size();
  while (end > site_at + 1 && frames.at(stack[end - 1]).is_start_up) --end;
  const auto line_of = [&](std::size_t at) {
    const std::uint32_t function = frames.function_of(stack[at]);
    StackLine line;
    line.frame = stack[at];
    line.origin = frames.functions()[function].origin;
    line.is_helper = helpers.contains(function);
    line.part = at < site_at                           ? StackLine::Part::kAllocation
                : at == site_at                        ? StackLine::Part::kSite
                : at >= end                            ? StackLine::Part::kStartUp
                : frames.functions()[function].is_main ? StackLine::Part::kMain
                                                       : StackLine::Part::kCaller;
    return line;
  };
  for (std::size_t at = stack.size(); at-- > std::min(site_at, stack.size());) folding.add(line_of(at));
  std::vector<StackLine> lines = folding.take();
  // Apart, so that the site stays: an allocator that collects garbage may contain the program's frames.
  for (std::size_t at = std::min(site_at, stack.size()); at-- > 0;) folding.add(line_of(at));
  const std::vector<StackLine> inner = folding.take();
  lines.insert(lines.end(), inner.begin(), inner.end());
  return lines;
}

}  // namespace

std::vector<StackLine> lines_of(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node) {
  Folding folding(frames);
  std::vector<StackLine> lines = outermost_first(frames, helpers, node, folding);
  std::reverse(lines.begin(), lines.end());
  return lines;
}

std::vector<FoldedStack> fold(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held,
                              std::span<const std::uint32_t> nodes) {
  Folding folding(frames);
  std::map<std::vector<std::uint32_t>, std::size_t> known;  // by numbers of function and line
  std::vector<FoldedStack> result;
  std::vector<std::uint32_t> key;
  for (const std::uint32_t node : nodes) {
    key.clear();
    for (const StackLine& line : outermost_first(frames, helpers, node, folding))
      if (frames.is_in_scope(frames.at(line.frame)))
        key.push_back(frames.lines_at(line.frame.address)[line.frame.index]);
    const auto [at, fresh] = known.try_emplace(key, result.size());
    if (fresh) result.push_back({node, {}, 0});
    FoldedStack& sum = result[at->second];
    if (held[node].bytes > held[sum.node].bytes) sum.node = node;
    sum.held += held[node];
    ++sum.stacks;
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const FoldedStack& a, const FoldedStack& b) { return a.held.bytes > b.held.bytes; });
  return result;
}

}  // namespace heapprof::findings
