#include "analyzer/cli/query/recordings.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "analyzer/processes/process_tree.h"
#include "analyzer/replay/index/index_cache.h"

namespace heapprof::cli {
namespace {

const char* began_word(processes::Begin begin) noexcept {
  switch (begin) {
    case processes::Begin::kRoot: return "root";
    case processes::Begin::kForked: return "forked";
    case processes::Begin::kStarted: return "started";
    case processes::Begin::kExecuted: return "executed";
  }
  return "";
}

}  // namespace

StackNames NamedStacks::resolved(const model::Profile& profile, const symbols::Options& symbols) {
  StackNames names(profile, symbols);
  names.resolve(nodes_of_findings(profile));
  return names;
}

NamedStacks::NamedStacks(const model::Profile& profile, const symbols::Options& symbols,
                         const CallSiteOptions& options)
    : names(resolved(profile, symbols)), findings(profile, names, options), view(profile, findings) {
  const views::Scope scope = options.view.scope();
  site_frames = findings::find_site_frames(findings.frames(), findings.helpers(), scope);
  sites = views::rows_by_site(findings.frames(), findings.helpers(), scope);
  const views::StackGroups groups = views::groups_by_site(findings.frames(), findings.helpers(), scope);
  std::unordered_map<std::uint32_t, std::uint32_t> position;  // by group
  for (std::uint32_t i = 0; i < sites.size(); ++i) position.emplace(sites[i].group, i);
  site_of_node.assign(groups.size(), model::kNoIndex);
  stacks_of_sites.assign(sites.size(), 0);
  for (std::uint32_t node = 0; node < groups.size(); ++node) {
    const auto at = position.find(groups[node]);
    if (at == position.end()) continue;
    site_of_node[node] = at->second;
    if (!profile.nodes[node].costs.empty()) ++stacks_of_sites[at->second];
  }
}

const replay::Analysis& Recording::costs() {
  const std::lock_guard lock(mutex_);
  if (costs_ != nullptr) return *costs_;
  const NeededParts& needed = all_.needed();
  AnalysisRequest request;
  request.change = [&](TraceOptions& options) {
    replay::Selection& selection = options.selection;
    selection.only_costs = true;
    selection.with_timeline = needed.timeline;
    selection.costs_by_thread = needed.threads && selection.kind == model::Kind::kHeap;
    std::error_code error;
    const std::uint64_t bytes = std::filesystem::file_size(process_.trace, error);
    // What reads a large recording again begins with an index, which one pass leaves that needs the trace summary.
    const bool leaves_index = !error && options.use_index && bytes >= replay::kMinBytesForIndex;
    selection.reads_marks = process_.grows ? needed.live : needed.events && leaves_index;
  };
  if (process_.grows && needed.live) {
    request.visit_block = [this](const replay::LiveBlock& block) { live_blocks_.push_back(block); };
    request.visit_mapping = [this](const replay::LiveMapping& mapping) { live_mappings_.push_back(mapping); };
  }
  costs_ = all_.open(process_, request);
  return *costs_;
}

const std::vector<std::uint32_t>& Recording::stacks() {
  if (!stacks_) stacks_ = nodes_with_costs(profile());
  return *stacks_;
}

const NamedStacks& Recording::named() {
  if (named_ == nullptr) named_ = std::make_unique<NamedStacks>(profile(), all_.options().symbols, all_.call_sites());
  return *named_;
}

Recordings::Recordings(std::vector<RecordedProcess> processes, const TraceOptions& options,
                       const CallSiteOptions& call_sites, AnalysisOpener open, std::function<void()> wait)
    : processes_(std::move(processes)), options_(options), call_sites_(call_sites), open_(std::move(open)),
      wait_(std::move(wait)) {}

std::shared_ptr<Recording> Recordings::recording(std::uint32_t id) {
  const auto known = std::ranges::find_if(last_used_, [&](const auto& one) { return one->process().id == id; });
  std::shared_ptr<Recording> found;
  if (known != last_used_.end()) {
    if (known == last_used_.begin()) return *known;
    found = std::move(*known);
    last_used_.erase(known);
  } else {
    // One that grows would be longer when it is read again, and its ids would be others.
    const auto oldest =
        std::find_if(last_used_.rbegin(), last_used_.rend(), [](const auto& one) { return !one->process().grows; });
    if (last_used_.size() >= kMaxOpen && oldest != last_used_.rend()) last_used_.erase(std::next(oldest).base());
    found = std::make_shared<Recording>(*this, processes_[id - 1]);
  }
  last_used_.insert(last_used_.begin(), found);
  return found;
}

bool Recordings::selects_times() const noexcept {
  const SelectionTexts& texts = options_.texts;
  return !texts.from.empty() || !texts.to.empty() || !texts.live_at.empty() || !texts.survivors.empty() ||
         !texts.min_lifetime.empty() || !texts.max_lifetime.empty() ||
         options_.selection.freed != replay::Freed::kAny;
}

std::vector<RecordedProcess> in_order_of_tree(std::vector<RecordedProcess> recordings) {
  std::vector<FileHeader> headers;
  for (const RecordedProcess& recording : recordings) headers.push_back(recording.header);
  std::vector<RecordedProcess> result;
  std::vector<std::uint32_t> id_of_recording(recordings.size(), 0);
  for (const processes::TraceInTree& in_tree : processes::process_tree(headers)) {
    RecordedProcess& process = result.emplace_back(std::move(recordings[in_tree.trace]));
    process.id = id_of_recording[in_tree.trace] = static_cast<std::uint32_t>(result.size());
    process.began = began_word(in_tree.begin);
    if (in_tree.from) process.from = id_of_recording[*in_tree.from];
  }
  return result;
}

}  // namespace heapprof::cli
