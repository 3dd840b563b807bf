#include "analyzer/findings/call_sites.h"

#include <algorithm>
#include <unordered_map>

namespace heapprof::findings {
namespace {

/// The site of a stack all of whose frames are skipped, such as a block that libc keeps for itself.
FrameRef innermost_telling_frame(const CodeFrames& frames, std::uint32_t node) {
  const std::vector<FrameRef> stack = frames.stack(node);
  for (const FrameRef frame : stack) {
    const Function& function = frames.at(frame);
    if (function.is_start_up) break;
    if (!is_allocation_function(function.name)) return frame;
  }
  return stack.empty() ? FrameRef{} : stack.front();
}

/// The first frame of `address` for which `matches(function)` is true.
template <typename Matches>
FrameRef first_frame(const CodeFrames& frames, std::uint32_t address, Matches&& matches) {
  const std::span<const std::uint32_t> functions = frames.functions_at(address);
  const auto at = std::find_if(functions.begin(), functions.end(), matches);
  return at == functions.end() ? FrameRef{} : FrameRef{address, static_cast<std::uint32_t>(at - functions.begin())};
}

}  // namespace

CallSites::CallSites(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  // Parents come before their children: a node whose frames are all skipped has the site of its parent.
  std::vector<FrameRef> site_of(nodes.size());
  std::vector<FrameRef> own_of(nodes.size());
  for (std::uint32_t node = 1; node < nodes.size(); ++node) {
    const std::uint32_t address = nodes[node].address;
    if (address != model::kNoIndex) {
      site_of[node] = first_frame(frames, address, [&](std::uint32_t function) { return !helpers.skips(function); });
      own_of[node] = first_frame(frames, address, [&](std::uint32_t function) {
        return frames.functions()[function].origin == Origin::kOwn && !helpers.skips(function);
      });
    }
    if (!site_of[node].exists()) site_of[node] = site_of[nodes[node].parent];
    if (!own_of[node].exists()) own_of[node] = own_of[nodes[node].parent];
  }

  std::unordered_map<std::uint32_t, std::uint32_t> known;  // by number of function and line
  site_of_node_.assign(nodes.size(), model::kNoIndex);
  std::vector<CallSite> all;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].costs.empty()) continue;
    if (!site_of[node].exists()) site_of[node] = innermost_telling_frame(frames, node);
    const FrameRef site = site_of[node];
    const std::uint32_t key = site.exists() ? frames.lines_at(site.address)[site.index] : model::kNoIndex;
    const auto [at, fresh] = known.try_emplace(key, static_cast<std::uint32_t>(all.size()));
    if (fresh) all.emplace_back().frame = site;
    site_of_node_[node] = at->second;
    CallSite& sum = all[at->second];
    sum.costs += nodes[node].costs;
    sum.held += held[node];
    if (held[node].blocks != 0) sum.nodes.push_back(node);
  }

  std::vector<std::uint32_t> order;
  for (std::uint32_t site = 0; site < all.size(); ++site)
    if (all[site].held.blocks != 0) order.push_back(site);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return all[a].held.bytes > all[b].held.bytes; });
  std::vector<std::uint32_t> position(all.size(), model::kNoIndex);
  for (const std::uint32_t from : order) {
    position[from] = static_cast<std::uint32_t>(sites_.size());
    CallSite& site = sites_.emplace_back(std::move(all[from]));
    std::stable_sort(site.nodes.begin(), site.nodes.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return held[a].bytes > held[b].bytes; });
    const std::uint32_t largest = site.nodes.front();
    site.frame = site_of[largest];
    if (site.frame.exists() && frames.at(site.frame).origin != Origin::kOwn) site.own_caller = own_of[largest];
  }
  for (std::uint32_t& site : site_of_node_)
    if (site != model::kNoIndex) site = position[site];
}

FrameRef call_site_of(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  for (std::uint32_t at = node; at != 0; at = nodes[at].parent) {
    if (nodes[at].address == model::kNoIndex) continue;
    const FrameRef frame =
        first_frame(frames, nodes[at].address, [&](std::uint32_t function) { return !helpers.skips(function); });
    if (frame.exists()) return frame;
  }
  return innermost_telling_frame(frames, node);
}

}  // namespace heapprof::findings
