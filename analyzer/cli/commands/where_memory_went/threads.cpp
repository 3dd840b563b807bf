// heapprof threads: allocations by thread, and cross-thread frees (of blocks that another thread allocated).
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/next_commands.h"
#include "analyzer/cli/commands/shared/second_pass.h"
#include "analyzer/cli/text/frame_text.h"
#include "analyzer/cli/text/report_json.h"
#include "analyzer/cli/text/report_text.h"
#include "analyzer/model/free_pairs.h"
#include "analyzer/render/units.h"
#include "analyzer/render/utf8.h"

namespace heapprof::cli {
namespace {

using model::BlockSum;
using render::exact_number;
using render::human_bytes;
using render::percent;

/// Cross-thread frees of one stack or call site.
struct CrossThreadFrees {
  BlockSum sum;
  CrossThreadFrees& operator+=(const CrossThreadFrees& other) noexcept {
    sum.blocks += other.sum.blocks;
    sum.bytes += other.sum.bytes;
    return *this;
  }
};

struct ThreadFrees {
  BlockSum by_itself;  ///< allocated and freed by the thread
  BlockSum by_others;  ///< allocated by the thread, freed by others
  BlockSum of_others;  ///< allocated by others, freed by the thread
  BlockSum not_freed;  ///< allocated by the thread, live at the end
};

std::string name_of_thread(const model::Profile& profile, std::uint32_t index) {
  if (index >= profile.threads.size()) return "(unknown)";
  const model::Thread& thread = profile.threads[index];
  return (thread.name.empty() ? "(no name)" : render::clip_utf8(render::clean_utf8(thread.name), 20)) + " " +
         std::to_string(thread.tid);
}

Json sum_json(const BlockSum& sum) { return {{"blocks", sum.blocks}, {"bytes", sum.bytes}}; }

struct ThreadSums {
  std::vector<ThreadFrees> of_thread;  ///< by index, up to the last that has any
  model::PairSums pairs;
  std::vector<CrossThreadFrees> of_node;
  BlockSum freed;
  BlockSum cross_thread;

  void add(const replay::ProfileEvent& event) {
    if (event.kind != replay::ResolvedKind::kFree || event.thread == replay::kNoThread) return;
    freed.add(event.size);
    ThreadFrees& thread = grown(of_thread, event.thread);
    if (event.thread == event.freeing_thread) return thread.by_itself.add(event.size);
    if (event.freeing_thread == replay::kNoThread) return;  // the free was not recorded
    thread.by_others.add(event.size);
    grown(of_thread, event.freeing_thread).of_others.add(event.size);
    cross_thread.add(event.size);
    pairs.add(event.thread, event.freeing_thread, event.size);
    grown(of_node, event.node).sum.add(event.size);
  }
  void add_left(const replay::LiveBlock& block) {
    if (block.thread != replay::kNoThread) grown(of_thread, block.thread).not_freed.add(block.size);
  }
};

void print_threads(const ThreadsOptions& options, const replay::Analysis& analysis, ThreadSums& sums) {
  const model::Profile& profile = analysis.profile();
  sums.of_thread.resize(profile.threads.size());
  const std::vector<ThreadFrees>& of_thread = sums.of_thread;
  const BlockSum& freed = sums.freed;
  const BlockSum& cross_thread = sums.cross_thread;
  std::vector<model::PairSums::Entry> ranked = sums.pairs.entries();
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.sum.blocks > b.sum.blocks; });
  StackNames names(profile, options.trace.symbols);
  auto sites = costs_by_site(profile, names, options.call_sites, by_node(analysis, sums.of_node),
                             [](const CrossThreadFrees& costs) { return costs.sum.blocks; });
  const std::string site_count = keep_first_sites(sites, options.top);
  const std::size_t all_pairs = ranked.size();
  if (options.top != 0 && ranked.size() > options.top) ranked.resize(options.top);
  if (options.trace.json) {
    Json json = head_json(profile);
    set_renamed(json, "freed", "released", sum_json(freed));
    set_renamed(json, "cross_thread_frees", "crossed", sum_json(cross_thread));
    Json& list = json["threads"] = threads_json(profile);
    for (std::size_t i = 0; i < of_thread.size(); ++i) {
      Json& thread = list[i];
      set_renamed(thread, "freed_by_itself", "released_by_itself", sum_json(of_thread[i].by_itself));
      set_renamed(thread, "freed_by_others", "released_by_others", sum_json(of_thread[i].by_others));
      set_renamed(thread, "freed_of_others", "released_of_others", sum_json(of_thread[i].of_others));
      set_renamed(thread, "not_freed", "not_released", sum_json(of_thread[i].not_freed));
    }
    json["all_pairs"] = all_pairs;
    Json& pair_list = json["pairs"] = Json::array();
    for (const auto& pair : ranked)
      pair_list.push_back({{"allocated_by", pair.from},
                           {"freed_by", pair.to},
                           {"released_by", pair.to},  // old name, for one release
                           {"blocks", pair.sum.blocks},
                           {"bytes", pair.sum.bytes}});
    json["sites"] = sites_json(names, sites, [](const CrossThreadFrees& costs) { return sum_json(costs.sum); });
    json["symbol_warnings"] = names.warnings();
    return write_output(options.trace.output, dump(json));
  }
  ReportText text(profile, style_for(options.trace.output, options.call_sites.view));
  text.title().line();
  text.row("cross-thread", percent(cross_thread.blocks, freed.blocks),
           exact_number(cross_thread.blocks) + " of " + exact_number(freed.blocks) +
               " blocks were freed by another thread, " + human_bytes(cross_thread.bytes) + " in total");
  text.heading("Threads");
  std::vector<std::vector<std::string>> rows;
  std::vector<std::uint32_t> order(of_thread.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return profile.threads[a].allocations > profile.threads[b].allocations;
  });
  constexpr std::size_t kMaxThreads = 30;
  for (const std::uint32_t i : order) {
    if (options.top != 0 && rows.size() == kMaxThreads) break;
    const ThreadFrees& thread = of_thread[i];
    rows.push_back({exact_number(profile.threads[i].allocations), human_bytes(profile.threads[i].allocated_bytes),
                    exact_number(thread.by_itself.blocks), exact_number(thread.by_others.blocks),
                    exact_number(thread.of_others.blocks), exact_number(thread.not_freed.blocks),
                    name_of_thread(profile, i)});
  }
  text.table({"allocations", "bytes", "self-freed", "by others", "for others", "not freed", "thread"}, rows);
  if (rows.size() < of_thread.size())
    text.line("  (" + std::to_string(rows.size()) + " of " + exact_number(of_thread.size()) +
              " threads; --top 0 shows all)");
  if (!ranked.empty()) {
    text.heading("Cross-thread frees by pair of threads" +
                 (ranked.size() < all_pairs
                      ? " (" + std::to_string(ranked.size()) + " of " + exact_number(all_pairs) + " pairs)"
                      : std::string()));
    rows.clear();
    for (const auto& pair : ranked)
      rows.push_back({exact_number(pair.sum.blocks), human_bytes(pair.sum.bytes), name_of_thread(profile, pair.from),
                      name_of_thread(profile, pair.to)});
    text.table({"blocks", "bytes", "allocated by", "freed by"}, rows);
    text.heading("Cross-thread frees by allocating call site" + site_count);
    const auto sizes = sizes_of(sites, [](const CrossThreadFrees& costs) { return costs.sum.bytes; });
    rows.clear();
    for (const auto& [site, costs] : sites)
      rows.push_back({exact_number(costs.sum.blocks), sizes.text(costs.sum.bytes),
                      site_name(site.frame, text.style().full_names)});
    text.table({"blocks", "bytes", "call site"}, rows);
  }
  if (order.size() > 1 && !options.trace.texts.selects_threads() && profile.threads[order.front()].allocations != 0)
    NextCommands(options.trace)
        .add("Call sites of the first", "report", {},
             "--thread " + std::to_string(profile.threads[order.front()].tid) + " --cost allocated")
        .write(text);
  text.notes(names.warnings());
  write_output(options.trace.output, text.text());
}

}  // namespace

std::unique_ptr<FollowedSums> new_thread_sums() { return std::make_unique<FollowedSumsOf<ThreadSums>>(ThreadSums{}); }

int run_threads(const ThreadsOptions& options) {
  return run_with_events<ThreadSums>(
      for_costs(options.trace), {},
      [&](const replay::Analysis& analysis, ThreadSums& sums) { print_threads(options, analysis, sums); });
}

}  // namespace heapprof::cli
