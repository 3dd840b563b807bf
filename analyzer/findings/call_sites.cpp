#include "analyzer/findings/call_sites.h"

#include <algorithm>
#include <unordered_map>

namespace heapprof::findings {
namespace {

/// The site of a stack all of whose frames are skipped, such as a block that libc keeps for itself.
FrameRef innermost_telling_frame(const CodeFrames& frames, std::uint32_t node) {
  const std::vector<FrameRef> stack = frames.stack(node);
  const auto is_telling_line = [&](FrameRef frame) {
    const Function& function = frames.at(frame);
    return function.is_python && !function.is_machinery;
  };
  if (const auto line = std::ranges::find_if(stack, is_telling_line); line != stack.end()) return *line;
  for (const FrameRef frame : stack) {
    const Function& function = frames.at(frame);
    if (function.is_start_up) break;
    if (!is_allocation_function(function.name)) return frame;
  }
  return stack.empty() ? FrameRef{} : stack.front();
}

/// What is known of the call site of a stack from its inner frames.
struct Site {
  FrameRef first;    ///< the innermost frame that is not skipped
  FrameRef outside;  ///< the innermost such frame that is not a third party's code built into the program, nor main

  FrameRef frame() const noexcept { return outside.exists() ? outside : first; }
  bool is_complete() const noexcept { return outside.exists(); }
};

/// Completes `site` with the frames of a caller.
void add_frames(const CodeFrames& frames, const Helpers& helpers, std::uint32_t address, Site& site) {
  const std::span<const std::uint32_t> functions = frames.functions_at(address);
  for (std::uint32_t index = 0; index < functions.size() && !site.is_complete(); ++index) {
    if (helpers.skips(functions[index])) continue;
    const Function& function = frames.functions()[functions[index]];
    const FrameRef frame{address, index};
    if (!site.first.exists()) site.first = frame;
    if (!site.outside.exists() && !function.is_built_in && !function.is_main) site.outside = frame;
  }
}

/// The site of a stack, if that of its caller's stack is known.
Site site_below(const CodeFrames& frames, const Helpers& helpers, std::uint32_t address, const Site& caller) {
  Site site;
  if (address != model::kNoIndex) add_frames(frames, helpers, address, site);
  if (!site.first.exists()) site.first = caller.first;
  if (!site.outside.exists()) site.outside = caller.outside;
  return site;
}

/// By node. A stack all of whose frames are skipped has no site yet.
std::vector<Site> sites_by_node(const CodeFrames& frames, const Helpers& helpers) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  // Parents come before their children.
  std::vector<Site> sites(nodes.size());
  for (std::uint32_t node = 1; node < nodes.size(); ++node)
    sites[node] = site_below(frames, helpers, nodes[node].address, sites[nodes[node].parent]);
  return sites;
}

/// The innermost frame of own code at an address, from `first` on, that is no helper.
FrameRef own_frame_at(const CodeFrames& frames, const Helpers& helpers, FrameRef first) {
  const std::span<const std::uint32_t> functions = frames.functions_at(first.address);
  for (; first.index < functions.size(); ++first.index)
    if (frames.at(first).origin == Origin::kOwn && !helpers.skips(functions[first.index])) return first;
  return {};
}

/// The call sites of Scope::kOwn, from those of Scope::kAll.
std::vector<FrameRef> own_sites(const CodeFrames& frames, const Helpers& helpers,
                                const std::vector<FrameRef>& sites) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  std::vector<FrameRef> own(nodes.size());
  std::vector<FrameRef> nearest(nodes.size());  // own code anywhere in the stack
  for (std::uint32_t node = 1; node < nodes.size(); ++node) {
    const std::uint32_t address = nodes[node].address;
    if (address != model::kNoIndex) nearest[node] = own_frame_at(frames, helpers, {address, 0});
    if (!nearest[node].exists()) nearest[node] = nearest[nodes[node].parent];
    if (!sites[node].exists()) continue;
    if (sites[node].address != address) {  // the site is the callers'
      own[node] = own[nodes[node].parent];
    } else {
      own[node] = own_frame_at(frames, helpers, sites[node]);
      if (!own[node].exists()) own[node] = nearest[nodes[node].parent];
    }
    // A site can be a caller of main.
    if (!own[node].exists()) own[node] = nearest[node];
  }
  return own;
}

/// The innermost frame of own code in a stack that is no helper; exists() is false: there is none.
FrameRef innermost_own_frame(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  for (; node != 0; node = nodes[node].parent)
    if (nodes[node].address != model::kNoIndex)
      if (const FrameRef own = own_frame_at(frames, helpers, {nodes[node].address, 0}); own.exists()) return own;
  return {};
}

/// The call site of Scope::kOwn of one stack, from that of Scope::kAll.
FrameRef own_site_of(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node, FrameRef site) {
  const std::vector<FrameRef> stack = frames.stack(node);
  const auto is_own = [&](FrameRef frame) {
    return frames.at(frame).origin == Origin::kOwn && !helpers.skips(frames.function_of(frame));
  };
  auto own = std::find_if(std::find(stack.begin(), stack.end(), site), stack.end(), is_own);
  if (own == stack.end()) own = std::find_if(stack.begin(), stack.end(), is_own);
  return own == stack.end() ? FrameRef{} : *own;
}

}  // namespace

std::vector<FrameRef> find_site_frames(const CodeFrames& frames, const Helpers& helpers, Scope scope) {
  const std::vector<Site> sites = sites_by_node(frames, helpers);
  std::vector<FrameRef> result;
  result.reserve(sites.size());
  for (std::uint32_t node = 0; node < sites.size(); ++node)
    result.push_back(sites[node].frame().exists() ? sites[node].frame() : innermost_telling_frame(frames, node));
  return scope == Scope::kAll ? result : own_sites(frames, helpers, result);
}

std::vector<FrameRef> find_site_frames(const CodeFrames& frames, const Helpers& helpers) {
  return find_site_frames(frames, helpers, frames.scope());
}

CallSites::CallSites(const CodeFrames& frames, const Helpers& helpers, const HeldByNode& held) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  const std::vector<FrameRef> site_of = find_site_frames(frames, helpers);

  std::unordered_map<std::uint32_t, std::uint32_t> known;  // by number of function and line
  site_of_node_.assign(nodes.size(), model::kNoIndex);
  std::vector<CallSite> all;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].costs.empty()) continue;
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
    if (site.frame.exists() && frames.at(site.frame).origin != Origin::kOwn)
      site.own_caller = innermost_own_frame(frames, helpers, largest);
  }
  for (std::uint32_t& site : site_of_node_)
    if (site != model::kNoIndex) site = position[site];
}

FrameRef call_site_of(const CodeFrames& frames, const Helpers& helpers, std::uint32_t node) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  Site site;
  for (std::uint32_t at = node; at != 0 && !site.is_complete(); at = nodes[at].parent)
    if (nodes[at].address != model::kNoIndex) add_frames(frames, helpers, nodes[at].address, site);
  const FrameRef frame = site.frame().exists() ? site.frame() : innermost_telling_frame(frames, node);
  return frames.scope() == Scope::kAll ? frame : own_site_of(frames, helpers, node, frame);
}

}  // namespace heapprof::findings
