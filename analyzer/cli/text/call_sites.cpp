#include "analyzer/cli/text/call_sites.h"

#include <algorithm>
#include <unordered_map>

#include "analyzer/cli/text/frame_text.h"
#include "analyzer/findings/call_sites.h"

namespace heapprof::cli {

CallSites group_by_site(const Findings& findings, const std::vector<std::uint32_t>& nodes) {
  const findings::CodeFrames& frames = findings.frames();
  const std::vector<findings::FrameRef> site_of = findings::find_site_frames(frames, findings.helpers());
  CallSites result;
  result.site_of_node.assign(site_of.size(), model::kNoIndex);
  std::unordered_map<std::uint32_t, std::uint32_t> known;  // by function
  for (const std::uint32_t node : nodes) {
    const findings::FrameRef frame = site_of[node];
    const std::uint32_t function = frame.exists() ? frames.function_of(frame) : model::kNoIndex;
    const auto [at, fresh] = known.try_emplace(function, static_cast<std::uint32_t>(result.sites.size()));
    if (fresh)
      result.sites.push_back({frame.exists() ? findings.frame(frame) : text_frame(findings.without_site()),
                              frame.exists() ? frames.at(frame).origin : findings::Origin::kUnresolved, node});
    result.site_of_node[node] = at->second;
  }
  return result;
}

std::string named_caller(const Findings& findings, std::uint32_t node) {
  const std::vector<findings::FrameRef> stack = findings.frames().stack(node);
  const auto site =
      std::find(stack.begin(), stack.end(), findings::call_site_of(findings.frames(), findings.helpers(), node));
  const auto caller = std::find_if(
      site, stack.end(), [&](findings::FrameRef frame) { return !findings.frames().at(frame).name.empty(); });
  return caller == stack.end() ? std::string() : findings.frames().at(*caller).name;
}

}  // namespace heapprof::cli
