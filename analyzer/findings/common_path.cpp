// Two walks over the call tree: the first sums the weight below each function, and finds the last function of the
// path; the second sums what each function has in common with that one.
#include "analyzer/findings/common_path.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/findings/sum_below.h"
#include "analyzer/render/short_names.h"

namespace heapprof::findings {
namespace {

bool can_be_on_path(const Function& function) {
  return function.origin != Origin::kStandard && function.origin != Origin::kRuntime && !function.is_main &&
         !function.is_start_up && !function.name.empty();
}

/// Functions that count as one: instances of one template. By function: the number of its family, or kNoIndex.
std::vector<std::uint32_t> number_families(const CodeFrames& frames, const Helpers& helpers) {
  std::vector<std::uint32_t> families;
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> known;
  for (std::uint32_t function = 0; function < frames.functions().size(); ++function) {
    const Function& one = frames.functions()[function];
    families.push_back(helpers.skips(function) || !can_be_on_path(one) || !frames.is_in_scope(one)
                           ? model::kNoIndex
                           : known.try_emplace(render::without_arguments(one.name), known.size()).first->second);
  }
  return families;
}

/// What is below the outermost frames of each family.
struct Sums {
  double weight = 0;
  double depth = 0;  ///< of these frames, from the root; weighted
  double allocated_bytes = 0;
  double mean_depth() const { return depth / weight; }
};

/// Sums by family. `weight_of(node)` is what a stack weighs.
template <typename Weight>
std::vector<Sums> sum_families(const CodeFrames& frames, const std::vector<std::uint32_t>& families,
                               Weight&& weight_of) {
  struct Weighed {
    double weight = 0;
    double allocated_bytes = 0;
    Weighed& operator+=(const Weighed& other) {
      weight += other.weight;
      allocated_bytes += other.allocated_bytes;
      return *this;
    }
    Weighed operator-(const Weighed& other) const {
      return {weight - other.weight, allocated_bytes - other.allocated_bytes};
    }
  };
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  std::vector<Sums> sums(families.size());
  sum_below(
      frames, families.size(), [&](std::uint32_t function) { return families[function]; },
      [&](std::uint32_t node) {
        return Weighed{weight_of(node), static_cast<double>(nodes[node].costs.allocated_bytes)};
      },
      [&](std::uint32_t family, const Weighed& below, std::uint32_t depth) {
        sums[family].weight += below.weight;
        sums[family].depth += below.weight * depth;
        sums[family].allocated_bytes += below.allocated_bytes;
      });
  return sums;
}

/// Whether each node is below a frame of `family`.
std::vector<std::uint8_t> find_below(const CodeFrames& frames, const std::vector<std::uint32_t>& families,
                                     std::uint32_t family) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  std::vector<std::uint8_t> below(nodes.size());
  // Parents come before their children.
  for (std::uint32_t node = 1; node < nodes.size(); ++node) {
    below[node] = below[nodes[node].parent];
    if (nodes[node].address == model::kNoIndex || below[node] != 0) continue;
    for (const std::uint32_t function : frames.functions_at(nodes[node].address))
      if (families[function] == family) below[node] = 1;
  }
  return below;
}

/// The innermost family with most of the weight that does not allocate nearly everything, or kNoIndex.
std::uint32_t find_last(const std::vector<Sums>& sums, double total_weight, double total_allocated) {
  std::uint32_t last = model::kNoIndex;
  for (std::uint32_t family = 0; family < sums.size(); ++family)
    if (sums[family].weight > 0 && sums[family].weight >= kMinPathShare * total_weight &&
        sums[family].allocated_bytes < kNearlyAll * total_allocated &&
        (last == model::kNoIndex || sums[family].mean_depth() > sums[last].mean_depth()))
      last = family;
  return last;
}

}  // namespace

std::optional<CommonPath> find_common_path(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held,
                                           std::span<const double> weight, FrameRef otherwise) {
  const std::vector<std::uint32_t> families = number_families(frames, helpers);
  double total = 0;
  for (const double one : weight) total += one;
  if (total <= 0) return std::nullopt;
  const std::vector<Sums> all = sum_families(frames, families, [&](std::uint32_t node) { return weight[node]; });
  double allocated = 0;
  for (const model::CallNode& node : frames.profile().nodes)
    allocated += static_cast<double>(node.costs.allocated_bytes);
  std::uint32_t last = find_last(all, total, allocated);
  if (last == model::kNoIndex && otherwise.exists()) last = families[frames.function_of(otherwise)];
  if (last == model::kNoIndex) return std::nullopt;

  const std::vector<std::uint8_t> below = find_below(frames, families, last);
  const std::vector<Sums> common =
      sum_families(frames, families, [&](std::uint32_t node) { return below[node] != 0 ? weight[node] : 0; });
  std::vector<std::uint32_t> path;
  for (std::uint32_t family = 0; family < common.size(); ++family)
    if (family == last || (common[family].weight >= kSameMemory * common[last].weight && common[family].weight > 0 &&
                           common[family].mean_depth() < common[last].mean_depth()))
      path.push_back(family);
  std::stable_sort(path.begin(), path.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return common[a].mean_depth() < common[b].mean_depth(); });

  CommonPath result;
  std::uint32_t heaviest = 0;
  for (std::uint32_t node = 0; node < below.size(); ++node) {
    if (below[node] == 0) continue;
    result.held += held[node];
    if (heaviest == 0 || weight[node] > weight[heaviest]) heaviest = node;
  }
  // A function that is not in the heaviest stack (below one of its callers' other branches) is shown by any frame.
  std::unordered_map<std::uint32_t, FrameRef> frame_of;
  for (const FrameRef frame : frames.stack(heaviest))
    if (const std::uint32_t family = families[frames.function_of(frame)]; family != model::kNoIndex)
      frame_of.try_emplace(family, frame);
  for (std::uint32_t function = 0; function < families.size(); ++function)
    if (families[function] != model::kNoIndex)
      frame_of.try_emplace(families[function], frames.functions()[function].frame);
  for (const std::uint32_t family : path)
    result.functions.push_back({frame_of.at(family), std::min(1.0, common[family].weight / all[family].weight)});
  return result;
}

}  // namespace heapprof::findings
