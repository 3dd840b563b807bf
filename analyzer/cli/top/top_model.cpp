#include "analyzer/cli/top/top_model.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

#include "analyzer/replay/analysis/integrity.h"

namespace heapprof::cli {
namespace {

using live::LiveSums;
using views::By;

/// New stacks are looked up when so many times the time has passed that it took of the processor last; after the
/// longer time while they are at most a kFewStacks-th of the live bytes, of the live blocks and of what was allocated
/// since then. (The first time the symbols of modules are read, too, so its time is longer than later ones.)
constexpr std::uint64_t kTreePause = 10;
constexpr std::uint64_t kLongTreePause = 100;
constexpr std::uint64_t kFewStacks = 20;

std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

LiveSums at(const std::vector<LiveSums>& sums, std::size_t index) {
  return index < sums.size() ? sums[index] : LiveSums{};
}

/// Processor time of this program.
std::uint64_t processor_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
}

/// What a row had at the three moments that its figures need.
struct SumsAtMoments {
  LiveSums now;
  LiveSums base;
  LiveSums before;
};

std::int64_t difference(std::uint64_t now, std::uint64_t before) noexcept {
  return static_cast<std::int64_t>(now - before);
}

double per_second(std::uint64_t amount, std::uint64_t ns) noexcept {
  return ns == 0 ? 0 : static_cast<double>(amount) * 1e9 / static_cast<double>(ns);
}

double value_of(const TopFigures& figures, TopSort sort) noexcept {
  switch (sort) {
    case TopSort::kLive: return static_cast<double>(figures.sums.live_bytes);
    case TopSort::kBlocks: return static_cast<double>(figures.sums.live_blocks);
    case TopSort::kGrowth: return static_cast<double>(figures.growth_bytes);
    case TopSort::kRate: return figures.bytes_per_s;
  }
  return 0;
}

void sort_rows(std::vector<TopRow>& rows, TopSort sort) {
  std::ranges::stable_sort(rows, [&](const TopRow& a, const TopRow& b) {
    const double of_a = value_of(a.figures, sort);
    const double of_b = value_of(b.figures, sort);
    return of_a != of_b ? of_a > of_b : a.figures.sums.live_bytes > b.figures.sums.live_bytes;
  });
}

}  // namespace

TopModel::TopModel(const std::string& path, const TopOptions& options, FindLaterTrace find_later_trace)
    : options_(options), find_later_trace_(std::move(find_later_trace)), follower_(path), state_(follower_.header()),
      tree_(options.symbols, options.call_sites) {}

/// Overwrites `reading`, so that its memory is used again.
void TopModel::take_reading(Reading& reading) const {
  reading.nodes = state_.nodes();
  reading.threads.clear();
  for (const live::LiveThread& thread : state_.threads()) reading.threads.push_back(thread.sums);
  reading.total = state_.totals();
}

bool TopModel::read() {
  if (ended()) {
    follower_.look_for_end();
    return false;
  }
  take_reading(before_);
  before_ns_ = at_ns_;
  follower_.advance();
  trace::EventRun run;
  while (follower_.next(run)) state_.take(run);
  read_to_end_ |= follower_.ended();
  const FileHeader& header = follower_.header();
  const std::uint64_t end = follower_.ended() ? std::max(state_.last_ticks(), header.end_ticks)
                                              : std::max(state_.last_ticks(), follower_.cut_ticks());
  at_ns_ = state_.clock().to_ns(trace::Ticks{end});
  // While the clock's rate is only estimated, times can become shorter. The end of a recording is its last event.
  if (!follower_.ended()) at_ns_ = std::max(at_ns_, before_ns_);
  if (readings_++ == 0) take_reading(base_);

  Level level;
  if (levels_.size() == kHistory) {
    level = std::move(levels_.front());
    levels_.pop_front();
    level.nodes.clear();
    level.threads.clear();
  }
  for (const LiveSums& sums : state_.nodes()) level.nodes.push_back(sums.live_bytes);
  for (const live::LiveThread& thread : state_.threads()) level.threads.push_back(thread.sums.live_bytes);
  level.total = state_.totals().live_bytes;
  levels_.push_back(std::move(level));
  return true;
}

void TopModel::name_stacks(bool now) {
  const std::uint64_t start = monotonic_ns();
  if (trees_built_ != 0) {
    if (!now && start < tree_built_at_ns_ + kTreePause * tree_cost_ns_) return;
    const LiveSums added = tree_.new_stacks(state_);
    if (added.allocations == 0) return;
    const auto is_few = [](std::uint64_t part, std::uint64_t all) { return part <= all / kFewStacks; };
    const LiveSums& all = state_.totals();
    if (!now && trees_built_ > 1 && start < tree_built_at_ns_ + kLongTreePause * tree_cost_ns_ &&
        is_few(added.live_bytes, all.live_bytes) && is_few(added.live_blocks, all.live_blocks) &&
        is_few(added.allocated_bytes, all.allocated_bytes - allocated_before_tree_))
      return;
  }
  const std::uint64_t processor_before = processor_ns();
  allocated_before_tree_ = state_.totals().allocated_bytes;
  tree_.rebuild(follower_, state_);
  groups_.clear();
  tree_built_at_ns_ = monotonic_ns();
  ++trees_built_;
  tree_cost_ns_ = processor_ns() - processor_before;
}

void TopModel::set_base(std::string name) {
  take_reading(base_);
  base_name_ = std::move(name);
}

TopFigures TopModel::figures(const LiveSums& now, const LiveSums& base, const LiveSums& before) const {
  TopFigures figures;
  figures.sums = now;
  figures.growth_bytes = difference(now.live_bytes, base.live_bytes);
  figures.growth_blocks = difference(now.live_blocks, base.live_blocks);
  const std::uint64_t ns = at_ns_ - std::min(at_ns_, before_ns_);
  figures.bytes_per_s = per_second(now.allocated_bytes - before.allocated_bytes, ns);
  figures.allocations_per_s = per_second(now.allocations - before.allocations, ns);
  return figures;
}

const LiveGroups& TopModel::groups(By by, views::Scope scope) const {
  const auto [known, fresh] = groups_.try_emplace({by, scope});
  if (fresh) {
    const std::uint64_t before = processor_ns();
    known->second = tree_.groups(by, scope);
    tree_cost_ns_ += processor_ns() - before;
  }
  return known->second;
}

std::vector<TopRow> TopModel::thread_rows() const {
  std::vector<TopRow> rows;
  for (std::uint32_t i = 0; i < state_.threads().size(); ++i) {
    const live::LiveThread& thread = state_.threads()[i];
    if (thread.sums.allocations == 0) continue;
    TopRow& row = rows.emplace_back();
    row.name = thread_name(thread.name, thread.tid);
    row.tid = thread.tid;
    row.key = i;
    row.figures = figures(thread.sums, at(base_.threads, i), at(before_.threads, i));
  }
  return rows;
}

std::vector<TopRow> TopModel::stack_rows(By by, views::Scope scope) const {
  const LiveGroups& groups = this->groups(by, scope);
  std::vector<SumsAtMoments> moments(groups.rows.size() + 1);  // the last one: of stacks that are not in the tree yet
  const std::vector<LiveSums>& nodes = state_.nodes();
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (nodes[index].allocations == 0) continue;
    const std::uint32_t row = index < groups.row_of_index.size() ? groups.row_of_index[index] : model::kNoIndex;
    SumsAtMoments& sums = moments[std::min<std::size_t>(row, groups.rows.size())];
    sums.now += nodes[index];
    sums.base += at(base_.nodes, index);
    sums.before += at(before_.nodes, index);
  }
  std::vector<TopRow> rows;
  for (std::uint32_t key = 0; key < moments.size(); ++key) {
    if (moments[key].now.allocations == 0) continue;
    TopRow& row = rows.emplace_back();
    row.key = key;
    row.figures = figures(moments[key].now, moments[key].base, moments[key].before);
  }
  return rows;
}

model::Integrity TopModel::integrity() const {
  const trace::Damage damage = follower_.damage();
  model::Integrity integrity;
  integrity.complete = !damage.incomplete;
  integrity.ended_by = follower_.ended_by();
  replay::describe_end(follower_.header(), integrity);
  integrity.events_lost = damage.events_lost;
  integrity.bytes_damaged = damage.bytes;
  integrity.notes = damage.notes;
  return integrity;
}

std::string TopModel::continued_in() const {
  return ended() && follower_.ended_by() == "exec" ? find_later_trace_(follower_.path(), follower_.header())
                                                   : std::string();
}

bool TopModel::ending_may_change() const {
  if (!ended() || follower_.finished_file() != nullptr) return false;
  const std::string how = follower_.ended_by();
  return how == "unknown" || (how == "exec" && continued_in().empty());
}

TopTable TopModel::table(By by, TopSort sort, const ViewOptions& view, std::size_t max) const {
  TopTable table;
  const FileHeader& header = follower_.header();
  table.program = follower_.definitions().program;
  table.pid = header.pid;
  table.state = ended() ? "ended" : state_.paused() ? "paused" : "recording";
  table.integrity = integrity();
  table.compacted = follower_.finished_file() != nullptr && follower_.finished_file()->compacted() != nullptr;
  table.continued_in = continued_in();
  table.at_ns = at_ns_;
  table.interval_ns = at_ns_ - std::min(at_ns_, before_ns_);
  table.total = figures(state_.totals(), base_.total, before_.total);
  for (const Level& level : levels_) table.total.over_time.push_back(level.total);
  table.frees = state_.frees();
  table.rss_bytes = state_.rss_bytes();
  table.has_growth = readings_ > 1;
  table.since = base_name_;
  table.by = by;
  table.sort = sort;
  table.only_own = view.only_own;
  table.rows = by == By::kThread ? thread_rows() : stack_rows(by, view.scope());
  table.all_rows = table.rows.size();
  sort_rows(table.rows, sort);
  if (max != 0 && table.rows.size() > max) table.rows.resize(max);
  if (!options_.json) add_over_time(table, view.scope());
  if (by == By::kThread) return table;
  const LiveGroups& groups = this->groups(by, view.scope());
  const ViewNames names = tree_.names(view);
  for (TopRow& row : table.rows) {
    if (row.key < groups.rows.size()) row.name = names.of_row(groups.rows[row.key], by);
    else row.name.name = row.name.label = "(new stacks, not looked up yet)";
  }
  return table;
}

void TopModel::add_over_time(TopTable& table, views::Scope scope) const {
  std::map<std::uint32_t, TopFigures*> shown;
  for (TopRow& row : table.rows) {
    row.figures.over_time.assign(levels_.size(), 0);
    shown[row.key] = &row.figures;
  }
  if (table.by == By::kThread) {
    for (std::size_t at = 0; at < levels_.size(); ++at)
      for (const auto& [thread, figures] : shown)
        if (thread < levels_[at].threads.size()) figures->over_time[at] = levels_[at].threads[thread];
    return;
  }
  const LiveGroups& groups = this->groups(table.by, scope);
  std::vector<TopFigures*> of_row(groups.rows.size() + 1, nullptr);
  for (const auto& [key, figures] : shown) of_row[key] = figures;
  std::vector<std::pair<std::size_t, TopFigures*>> stacks;  // of the rows that are shown
  for (std::size_t index = 0; index < state_.nodes().size(); ++index) {
    if (state_.nodes()[index].allocations == 0) continue;
    const std::uint32_t row = index < groups.row_of_index.size() ? groups.row_of_index[index] : model::kNoIndex;
    TopFigures* const figures = of_row[std::min<std::size_t>(row, groups.rows.size())];
    if (figures != nullptr) stacks.emplace_back(index, figures);
  }
  for (std::size_t at = 0; at < levels_.size(); ++at)
    for (const auto& [index, figures] : stacks)
      if (index < levels_[at].nodes.size()) figures->over_time[at] += levels_[at].nodes[index];
}

std::vector<std::pair<std::uint32_t, TopFigures>> TopModel::stacks_of(By by, const ViewOptions& view,
                                                                      std::uint32_t key) const {
  std::map<std::uint32_t, SumsAtMoments> by_node;  // two indices of the trace can be equal stacks
  if (by == By::kThread) {
    for (const auto& [index, sums] : state_.live_stacks_of(key)) by_node[tree_.node_of(index)].now += sums;
  } else {
    const LiveGroups& groups = this->groups(by, view.scope());
    const std::size_t count = std::min(groups.row_of_index.size(), state_.nodes().size());
    for (std::size_t index = 0; index < count; ++index) {
      if (groups.row_of_index[index] != key || state_.nodes()[index].allocations == 0) continue;
      SumsAtMoments& moments = by_node[tree_.node_of(static_cast<std::uint32_t>(index))];
      moments.now += state_.nodes()[index];
      moments.base += at(base_.nodes, index);
      moments.before += at(before_.nodes, index);
    }
  }
  std::vector<std::pair<std::uint32_t, TopFigures>> stacks;
  for (const auto& [node, moments] : by_node)
    stacks.emplace_back(node, figures(moments.now, moments.base, moments.before));
  std::ranges::stable_sort(
      stacks, [](const auto& a, const auto& b) { return a.second.sums.live_bytes > b.second.sums.live_bytes; });
  return stacks;
}

}  // namespace heapprof::cli
