#include "analyzer/views/rows.h"

#include <unordered_map>
#include <utility>

#include "analyzer/findings/call_sites.h"

namespace heapprof::views {

std::vector<Row> rows_of(const FrameTree& tree) {
  const std::vector<FrameNode>& nodes = tree.nodes();
  std::vector<Row> by_key(tree.key_count());
  Row without_frames;
  const auto row_at = [&](std::uint32_t node) -> Row& {
    return node == 0 ? without_frames : by_key[nodes[node].key];
  };
  for (std::uint32_t node = 1; node < nodes.size(); ++node)
    if (Row& row = row_at(node); !row.frame.exists()) {
      row.frame = nodes[node].frame;
      row.group = nodes[node].key;
    }
  const std::vector<model::Costs> self = tree.at_sites();
  for (std::uint32_t node = 0; node < nodes.size(); ++node) row_at(node).self += self[node];
  const std::vector<model::Costs> total = tree.below_leaves();
  for (std::uint32_t node = 1; node < nodes.size(); ++node)
    if (nodes[node].outermost) row_at(node).total += total[node];
  without_frames.total = without_frames.self;
  by_key.push_back(without_frames);
  std::erase_if(by_key, [](const Row& row) { return row.total.empty(); });
  return by_key;
}

StackGroups groups_of(const FrameTree& tree) {
  StackGroups groups;
  groups.reserve(tree.site_of_stack().size());
  for (const std::uint32_t node : tree.site_of_stack()) groups.push_back(tree.nodes()[node].key);
  return groups;
}

namespace {

/// The number of a site's function and line.
std::uint32_t group_of_site(const findings::CodeFrames& frames, findings::FrameRef site) {
  return site.exists() ? frames.lines_at(site.address)[site.index] : model::kNoIndex;
}

}  // namespace

std::vector<Row> rows_by_site(const findings::CodeFrames& frames, const findings::Helpers& helpers, Scope scope) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  const std::vector<findings::FrameRef> sites = findings::find_site_frames(frames, helpers, scope);
  std::unordered_map<std::uint32_t, std::size_t> known;  // by group
  std::vector<Row> rows;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].costs.empty()) continue;
    const std::uint32_t group = group_of_site(frames, sites[node]);
    const auto [at, fresh] = known.try_emplace(group, rows.size());
    if (fresh) {
      Row& row = rows.emplace_back();
      row.frame = sites[node];
      row.group = group;
    }
    rows[at->second].self += nodes[node].costs;
  }
  for (Row& row : rows) row.total = row.self;
  return rows;
}

StackGroups groups_by_site(const findings::CodeFrames& frames, const findings::Helpers& helpers, Scope scope) {
  StackGroups groups;
  for (const findings::FrameRef site : findings::find_site_frames(frames, helpers, scope))
    groups.push_back(group_of_site(frames, site));
  return groups;
}

std::vector<Row> rows_by_stack(const findings::CodeFrames& frames, const findings::Helpers& helpers, Scope scope) {
  const std::vector<model::CallNode>& nodes = frames.profile().nodes;
  const std::vector<findings::FrameRef> sites = findings::find_site_frames(frames, helpers, scope);
  std::vector<Row> rows;
  for (std::uint32_t node = 0; node < nodes.size(); ++node) {
    if (nodes[node].costs.empty()) continue;
    Row& row = rows.emplace_back();
    row.frame = sites[node];
    row.node = row.group = node;
    row.self = row.total = nodes[node].costs;
  }
  return rows;
}

}  // namespace heapprof::views
