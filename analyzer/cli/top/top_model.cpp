#include "analyzer/cli/top/top_model.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "analyzer/replay/analysis/integrity.h"

namespace heapprof::cli {
namespace {

using live::LiveSums;
using views::By;

/// New stacks are looked up when so many times the time has passed that it took last.
constexpr std::uint64_t kTreePause = 20;

std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

LiveSums& operator+=(LiveSums& sums, const LiveSums& other) noexcept {
  sums.live_bytes += other.live_bytes;
  sums.live_blocks += other.live_blocks;
  sums.allocations += other.allocations;
  sums.allocated_bytes += other.allocated_bytes;
  return sums;
}

LiveSums at(const std::vector<LiveSums>& sums, std::size_t index) {
  return index < sums.size() ? sums[index] : LiveSums{};
}

/// What a row had at the three moments that its figures need.
struct Moments {
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

TopModel::Reading TopModel::reading_of(const live::LiveState& state) {
  Reading reading{state.nodes(), {}, state.totals()};
  for (const live::LiveThread& thread : state.threads()) reading.threads.push_back(thread.sums);
  return reading;
}

bool TopModel::read() {
  if (ended()) {
    follower_.look_for_end();
    return false;
  }
  before_ = reading_of(state_);
  before_ns_ = at_ns_;
  follower_.advance();
  trace::EventRun run;
  while (follower_.next(run)) state_.take(run);
  if (follower_.ended()) {
    state_.finish();
    read_to_end_ = true;
  }
  const FileHeader& header = follower_.header();
  const std::uint64_t end = follower_.ended() ? std::max(state_.last_ticks(), header.end_ticks)
                                              : std::max(state_.last_ticks(), follower_.cut_ticks());
  at_ns_ = state_.clock().to_ns(trace::Ticks{end});
  // While the clock's rate is only estimated, times can become shorter. The end of a recording is its last event.
  if (!follower_.ended()) at_ns_ = std::max(at_ns_, before_ns_);
  if (readings_++ == 0) base_ = reading_of(state_);

  Level level;
  for (const LiveSums& sums : state_.nodes()) level.nodes.push_back(sums.live_bytes);
  for (const live::LiveThread& thread : state_.threads()) level.threads.push_back(thread.sums.live_bytes);
  level.total = state_.totals().live_bytes;
  levels_.push_back(std::move(level));
  if (levels_.size() > kHistory) levels_.pop_front();
  return true;
}

void TopModel::name_stacks(bool now) {
  const std::uint64_t start = monotonic_ns();
  if (tree_built_at_ns_ != 0) {
    if (!now && start < tree_built_at_ns_ + kTreePause * tree_cost_ns_) return;
    if (!tree_.is_outdated(state_)) return;
  }
  tree_.rebuild(follower_, state_);
  groups_.clear();
  tree_built_at_ns_ = monotonic_ns();
  tree_cost_ns_ = tree_built_at_ns_ - start;
}

void TopModel::set_base(std::string name) {
  base_ = reading_of(state_);
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
  if (fresh) known->second = tree_.groups(by, scope);
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
  std::vector<Moments> moments(groups.rows.size() + 1);  // the last one: of stacks that are not in the tree yet
  const std::vector<LiveSums>& nodes = state_.nodes();
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    if (nodes[index].allocations == 0) continue;
    const std::uint32_t row = index < groups.row_of_index.size() ? groups.row_of_index[index] : model::kNoIndex;
    Moments& sums = moments[std::min<std::size_t>(row, groups.rows.size())];
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
  add_over_time(table, view.scope());
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
  for (std::size_t at = 0; at < levels_.size(); ++at) {
    const std::vector<std::uint64_t>& nodes = levels_[at].nodes;
    for (std::size_t index = 0; index < nodes.size(); ++index) {
      if (nodes[index] == 0) continue;
      const std::uint32_t row = index < groups.row_of_index.size() ? groups.row_of_index[index] : model::kNoIndex;
      TopFigures* const figures = of_row[std::min<std::size_t>(row, groups.rows.size())];
      if (figures != nullptr) figures->over_time[at] += nodes[index];
    }
  }
}

std::vector<std::pair<std::uint32_t, TopFigures>> TopModel::stacks_of(By by, const ViewOptions& view,
                                                                      std::uint32_t key) const {
  std::map<std::uint32_t, Moments> by_node;  // two indices of the trace can be equal stacks
  if (by == By::kThread) {
    for (const auto& [index, sums] : state_.live_stacks_of(key)) by_node[tree_.node_of(index)].now += sums;
  } else {
    const LiveGroups& groups = this->groups(by, view.scope());
    const std::size_t count = std::min(groups.row_of_index.size(), state_.nodes().size());
    for (std::size_t index = 0; index < count; ++index) {
      if (groups.row_of_index[index] != key || state_.nodes()[index].allocations == 0) continue;
      Moments& moments = by_node[tree_.node_of(static_cast<std::uint32_t>(index))];
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
