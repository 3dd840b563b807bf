// heapprof timeline: live bytes over time, by call site, module or thread.
//
// The largest call sites are known only after the trace was replayed. Their live bytes over time come from the index,
// or from a second replay, with one counter per site. Counters for every stack and bucket in the first replay would
// cost every command memory that grows with stacks times buckets.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "analyzer/base/chosen_key_hash.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/over_time/timeline.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/call_sites.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/text_style.h"
#include "analyzer/cli/text/used_project_file.h"
#include "analyzer/export/openmetrics.h"
#include "analyzer/render/text_sink.h"
#include "analyzer/render/timeline.h"
#include "analyzer/render/units.h"

namespace heapprof::cli {
namespace {

using Format = TimelineOptions::Format;

/// Shorter idle times are not shown. While a program allocates, resident memory is sampled every 10 ms.
constexpr std::uint64_t kMinIdleNs = 100'000'000;

/// What is known of a call site besides its label.
std::string detail_of(const CallSite& site, const Findings& findings) {
  const Frame& frame = site.frame;
  if (!frame.file.empty()) return frame.file + (frame.line > 0 ? ":" + std::to_string(frame.line) : "");
  if (!frame.function.empty()) return unresolved_name(frame);
  const std::string caller = named_caller(findings, site.node);
  return caller.empty() ? std::string() : "called from " + short_function(caller);
}

void add_samples(const model::Profile& profile, render::Timeline& timeline) {
  // The values of a bucket are those at its end.
  const std::uint64_t begin = profile.begin_ns();
  const std::uint64_t end = profile.end_ns();
  const std::vector<model::Timeline::Bucket>& buckets = profile.timeline.buckets;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const std::uint64_t end_ns =
        i + 1 < buckets.size() ? buckets[i + 1].start_ns : std::max(end, buckets[i].start_ns);
    timeline.time_ns.push_back(end_ns);
    timeline.live_bytes.push_back(buckets[i].last_bytes);
    timeline.highest_bytes.push_back(buckets[i].max_bytes);
    timeline.mapped_bytes.push_back(buckets[i].mapped_bytes);
    if (buckets[i].rss_bytes != 0) timeline.resident.push_back({end_ns, buckets[i].rss_bytes});
  }
  if (profile.totals.peak_bytes != 0 || profile.is_moment())
    timeline.peak = render::Timeline::Peak{profile.peak_time_ns, profile.totals.peak_bytes};
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (!buckets[i].idle) continue;
    const std::size_t first = i;
    while (i + 1 < buckets.size() && buckets[i + 1].idle) ++i;
    if (timeline.time_ns[i] - buckets[first].start_ns >= kMinIdleNs)
      timeline.idle.push_back({buckets[first].start_ns, timeline.time_ns[i]});
  }
  std::vector<std::uint64_t> sampled;
  for (const render::Timeline::Resident& resident : timeline.resident) sampled.push_back(resident.time_ns);
  const std::uint64_t width = buckets.size() < 2 ? 0 : buckets[1].start_ns - buckets[0].start_ns;
  timeline.unsampled = render::spans_without_samples(sampled, end, std::max(kMinIdleNs, 3 * width), begin);

  // Marks and pauses are clipped to the time shown.
  const auto add_pause = [&](std::uint64_t from_ns, std::uint64_t to_ns) {
    from_ns = std::max(from_ns, begin);
    to_ns = std::min(to_ns, end);
    if (from_ns < to_ns) timeline.pauses.push_back({from_ns, to_ns});
  };
  // If the first event is a resume, recording was paused when the time shown began: a slice has no earlier marks.
  const std::vector<model::Timeline::Mark>& marks = profile.timeline.marks;
  const auto first = std::find_if(marks.begin(), marks.end(), [](const model::Timeline::Mark& mark) {
    return mark.kind != model::Timeline::Mark::Kind::kUser;
  });
  std::uint64_t paused_at = begin;
  bool paused = first != marks.end() && first->kind == model::Timeline::Mark::Kind::kResumed;
  for (const model::Timeline::Mark& mark : marks) {
    if (mark.kind == model::Timeline::Mark::Kind::kUser) {
      if (begin <= mark.time_ns && mark.time_ns <= end) timeline.marks.push_back({mark.time_ns, mark.text});
    } else if (mark.kind == model::Timeline::Mark::Kind::kPaused && !paused) {
      paused = true;
      paused_at = mark.time_ns;
    } else if (mark.kind == model::Timeline::Mark::Kind::kResumed && paused) {
      paused = false;
      add_pause(paused_at, mark.time_ns);
    }
  }
  if (paused) add_pause(paused_at, end);
}

/// The stacks whose blocks are counted, the largest at the peak first. A block that was freed in a slice before its
/// peak leaves no cost at its stack, so in a slice every node may be a stack.
std::vector<std::uint32_t> stacks_of(const model::Profile& profile) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    if (profile.slice || !profile.nodes[node].costs.empty()) nodes.push_back(node);
  std::stable_sort(nodes.begin(), nodes.end(), [&](std::uint32_t a, std::uint32_t b) {
    return profile.nodes[a].costs.peak_bytes > profile.nodes[b].costs.peak_bytes;
  });
  return nodes;
}

/// Stacks that are drawn as one area, and the sums of their figures.
struct StackGroup {
  render::Timeline::Site site;
  model::Costs costs;

  /// At no time more than this is live of it.
  std::uint64_t limit_bytes() const { return std::max(costs.peak_bytes, costs.live_bytes) + costs.allocated_bytes; }
};

struct StackGroups {
  std::vector<StackGroup> groups;
  std::vector<std::uint32_t> group_of_node;  ///< kNoIndex: the node is in none
};

/// The stacks by call site, or by the module of their call site.
StackGroups groups_of(const TimelineOptions& options, const model::Profile& profile) {
  const std::vector<std::uint32_t> nodes = stacks_of(profile);
  StackNames names(profile, options.trace.symbols);
  std::vector<std::uint32_t> named = nodes_of_findings(profile);
  named.insert(named.end(), nodes.begin(), nodes.end());
  names.resolve(named);
  const Findings findings(profile, names, options.call_sites);
  const CallSites sites = group_by_site(findings, nodes);
  StackGroups result;
  std::vector<std::uint32_t> group_of_site(sites.sites.size(), model::kNoIndex);
  std::unordered_map<std::string, std::uint32_t, ChosenTextHash> group_of_module;
  for (std::size_t i = 0; i < sites.sites.size(); ++i) {
    const CallSite& from = sites.sites[i];
    if (from.frame.module == nullptr) continue;
    const std::string& path = from.frame.module->path;
    const auto next = static_cast<std::uint32_t>(result.groups.size());
    group_of_site[i] =
        options.by == views::By::kModule ? group_of_module.try_emplace(path, next).first->second : next;
    if (group_of_site[i] != next) continue;
    StackGroup& group = result.groups.emplace_back();
    group.site.module = base_name(path);
    if (options.by == views::By::kModule) {
      group.site.label = group.site.module;
      group.site.detail = path;
    } else {
      group.site.label = from.frame.function.empty()          ? unresolved_name(from.frame)
                         : options.call_sites.view.full_names ? from.frame.function
                                                              : short_function(from.frame.function);
      group.site.detail = detail_of(from, findings);
    }
  }
  result.group_of_node = sites.site_of_node;
  for (std::uint32_t& group : result.group_of_node)
    if (group != model::kNoIndex) group = group_of_site[group];
  for (const std::uint32_t node : nodes)
    if (const std::uint32_t group = result.group_of_node[node]; group != model::kNoIndex)
      result.groups[group].costs += profile.nodes[node].costs;
  return result;
}

/// More groups than these are not compared by their maximum over time: each takes 8 bytes a bucket.
constexpr std::size_t kMaxCompared = 2000;

template <typename Value>
void sort_descending(std::vector<std::uint32_t>& positions, Value&& value) {
  std::stable_sort(positions.begin(), positions.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return value(a) > value(b); });
}

/// Appends the series of `sites` that have the highest maximum over time, or of the first ones.
void add_series(std::vector<render::Timeline::Site> sites, std::vector<std::vector<std::uint64_t>> series,
                bool by_maximum, std::size_t count, render::Timeline& timeline) {
  std::vector<std::uint32_t> order(sites.size());
  std::iota(order.begin(), order.end(), 0U);
  if (by_maximum) {
    std::vector<std::uint64_t> highest;
    for (const std::vector<std::uint64_t>& one : series)
      highest.push_back(one.empty() ? 0 : *std::max_element(one.begin(), one.end()));
    sort_descending(order, [&](std::uint32_t i) { return highest[i]; });
    std::erase_if(order, [&](std::uint32_t i) { return highest[i] == 0; });
  }
  if (order.size() > count) order.resize(count);
  for (const std::uint32_t i : order) {
    sites[i].bytes = std::move(series[i]);
    timeline.sites.push_back(std::move(sites[i]));
  }
}

/// The call sites or modules that have most bytes at the peak, or at any time, each with the live bytes of all its
/// stacks.
void add_sites(const TimelineOptions& options, const replay::Analysis& analysis, bool by_maximum,
               render::Timeline& timeline) {
  StackGroups all = groups_of(options, analysis.profile());
  const auto value = [&](std::uint32_t i) {
    return by_maximum ? all.groups[i].limit_bytes() : all.groups[i].costs.peak_bytes;
  };
  std::vector<std::uint32_t> shown;
  for (std::uint32_t i = 0; i < all.groups.size(); ++i)
    if (by_maximum ? value(i) != 0 : all.groups[i].costs.peak_blocks != 0) shown.push_back(i);
  sort_descending(shown, value);
  const std::size_t candidates = by_maximum ? std::max(kMaxCompared, options.sites) : options.sites;
  if (shown.size() > candidates) shown.resize(candidates);
  const model::Profile& profile = analysis.profile();
  if (shown.empty() && options.call_sites.view.only_own && profile.totals.peak_bytes != 0)
    timeline.context.push_back({"Call sites", "none is in the program's own code; --own REGEX adds code to it"});
  if (shown.empty()) return;

  std::vector<std::uint32_t> position(all.groups.size(), model::kNoIndex);
  std::vector<render::Timeline::Site> sites;
  for (const std::uint32_t group : shown) {
    position[group] = static_cast<std::uint32_t>(sites.size());
    sites.push_back(std::move(all.groups[group].site));
    sites.back().peak_bytes = all.groups[group].costs.peak_bytes;
  }
  for (std::uint32_t& group : all.group_of_node)
    if (group != model::kNoIndex) group = position[group];
  ProgressLine progress("Reading " + options.trace.trace + " again");
  auto series = analysis.live_by_group(all.group_of_node, static_cast<std::uint32_t>(sites.size()),
                                       [&](const replay::Done& done) { progress.show(done); });
  add_series(std::move(sites), std::move(series), by_maximum, options.sites, timeline);
}

/// The threads, each with the live bytes of the blocks that it allocated, at the end of each bucket.
void add_threads(const TimelineOptions& options, const replay::Analysis& analysis, render::Timeline& timeline) {
  const model::Profile& profile = analysis.profile();
  ProgressLine progress("Reading " + options.trace.trace + " again");
  auto series = analysis.live_by_thread([&](const replay::Done& done) { progress.show(done); });
  std::vector<render::Timeline::Site> sites(profile.threads.size());
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const model::Thread& thread = profile.threads[i];
    sites[i].label = thread.name.empty() ? "thread " + std::to_string(thread.tid) : thread.name;
    sites[i].detail = "tid " + std::to_string(thread.tid);
    sites[i].peak_bytes = profile.thread_costs[i].peak_bytes;
  }
  add_series(std::move(sites), std::move(series), true, options.sites, timeline);
}

/// What is drawn as areas of their own.
void add_areas(const TimelineOptions& options, const replay::Analysis& analysis, render::Timeline& timeline) {
  if (options.sites == 0) return;
  if (options.by == views::By::kThread) return add_threads(options, analysis, timeline);
  // A reader of JSON draws what was large at any time; the other formats show what made the peak.
  add_sites(options, analysis, options.format == Format::kJson || options.by != views::By::kSite, timeline);
}

render::PlotOptions plot_options(const std::string& output, std::size_t sites, bool full_names) {
  render::PlotOptions plot;
  const TextStyle style = style_for(output);
  plot.width = static_cast<unsigned>(style.width);
  plot.unicode = style.unicode;
  plot.colour = style.colour;
  plot.sites = static_cast<unsigned>(sites);
  plot.full_names = full_names;
  return plot;
}

void print_timeline(const TimelineOptions& options, const replay::Analysis& analysis) {
  const model::Profile& profile = analysis.profile();
  render::Timeline timeline;
  const std::string program = base_name(profile.recording.program);
  timeline.live = profile.kind == model::Kind::kHeap   ? "live heap"
                  : profile.kind == model::Kind::kMmap ? "live mappings"
                                                       : "live heap and mappings";
  timeline.title =
      "L" + timeline.live.substr(1) + " of " + (program.empty() ? std::string("an unknown program") : program);
  const bool has_time = profile.is_moment() || profile.totals.peak_bytes != 0;
  timeline.context = {
      {"Program", command_of(profile)},
      {profile.is_moment() ? "Live" : "Peak",
       has_time ? render::human_bytes(profile.totals.peak_bytes) + " at " + render::human_time(profile.peak_time_ns)
                : "no byte was live"}};
  if (!profile.selection_text.empty()) timeline.context.push_back({"Only", profile.selection_text});
  if (!used_project_file.empty()) timeline.context.push_back({"Settings", used_project_file});
  timeline.peak_is_moment = profile.is_moment();
  timeline.start_ns = profile.begin_ns();
  timeline.duration_ns = profile.end_ns();
  add_samples(profile, timeline);
  add_areas(options, analysis, timeline);
  write_timeline(options, profile, program, timeline);
}

}  // namespace

void write_timeline(const TimelineOptions& options, const model::Profile& profile, const std::string& program,
                    const render::Timeline& timeline, const nlohmann::json& more) {
  std::string text;
  const render::TextSink sink = [&](std::string_view piece) { text += piece; };
  switch (options.format) {
    case Format::kText:
      render::write_timeline_text(
          timeline, plot_options(options.trace.output, options.sites, options.call_sites.view.full_names), sink);
      break;
    case Format::kCsv: render::write_timeline_csv(timeline, sink); break;
    case Format::kSvg: render::write_timeline_svg(timeline, sink); break;
    case Format::kOpenMetrics: exporter::write_openmetrics(profile, timeline, program, sink); break;
    case Format::kJson: {
      nlohmann::json json = render::timeline_json(timeline);
      json["format_version"] = kJsonFormatVersion;
      if (!used_project_file.empty()) json["project_file"] = used_project_file;
      if (!profile.together) json["integrity"] = integrity_json(profile.integrity);
      if (more.is_object()) json.update(more);
      text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    }
  }
  write_output(options.trace.output, text);
}

int run_timeline(const TimelineOptions& options) {
  if (!options.trace.traces.empty()) return run_timeline_of_processes(options);
  if (options.resident) return run_resident_timeline(options);
  TraceOptions trace = for_costs(options.trace);
  trace.selection.with_timeline = true;
  trace.selection.costs_by_thread = options.by == views::By::kThread;
  return run_on_trace(trace, [&](const replay::Analysis& analysis) { print_timeline(options, analysis); });
}

}  // namespace heapprof::cli
