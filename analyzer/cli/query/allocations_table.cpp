// The table allocations.
//
// An allocation is known whole when its block is freed, or is live at the end. So if a query reads when or how blocks
// were freed, the rows are made of frees, else of allocations; both are the same rows in another order. A part of the
// time is read from the last snapshot before it, to its end, or to the end of the recording if frees are needed.
#include <algorithm>
#include <limits>
#include <utility>

#include "analyzer/cli/query/block_filter.h"
#include "analyzer/cli/query/indexed_table.h"
#include "analyzer/cli/query/stream.h"
#include "analyzer/cli/query/tables.h"
#include "analyzer/query/database.h"

namespace heapprof::cli {
namespace {

using query::Columns;
using query::Constraint;
using query::Range;
using query::Result;

struct Allocation {
  std::uint64_t time_ns = 0;
  std::uint64_t address = 0;
  std::uint64_t size = 0;
  std::uint64_t freed_ns = 0;
  std::uint32_t node = 0;
  std::uint32_t thread = replay::kNoThread;
  std::uint32_t freeing_thread = replay::kNoThread;
  std::uint32_t freeing_node = model::kNoIndex;
  bool is_mapping = false;
  bool freed = false;
  bool temporary = false;
  bool in_realloc = false;
};

class AllocationsTable : public query::Table {
 public:
  explicit AllocationsTable(Recordings& recordings) : recordings_(recordings) {}
  const char* name() const override { return "allocations"; }
  const char* help() const override {
    return "One row for each allocation, read from the trace while the query runs; mappings only with --kind mmap or "
           "all";
  }
  std::span<const query::Column> columns() const override { return kColumns; }
  /// Reading takes as long whatever is asked for. Conditions leave fewer rows, but more than half of them: SQLite
  /// would otherwise scan once for each condition of an OR, and recognize rows by their numbers.
  query::Estimate estimate(Columns equal, Columns bounded) const override {
    return {1e9, (equal | bounded) == 0 ? 1e8 : 6e7};
  }
  int order(Columns used) const override {
    return needs_frees(used) || recordings_.processes().size() > 1 ? -1 : kAllocated;
  }
  std::unique_ptr<query::Cursor> open(std::span<const Constraint> constraints, Columns used) override {
    return std::make_unique<AllocationCursor>(recordings_, constraints, used);
  }

 private:
  enum : int {
    kProcess,
    kAllocated,
    kAddress,
    kSize,
    kThread,
    kStack,
    kKind,
    kFreed,
    kLifetime,
    kFreeingThread,
    kFreeingStack,
    kTemporary,
    kFreedInRealloc,
  };
  static constexpr query::Column kColumns[] = {
      kProcessId,
      {"allocated_ns", "INTEGER", "time of the allocation"},
      {"address", "INTEGER", "address of the block; its number in a compacted trace without addresses"},
      {"size_bytes", "INTEGER", "requested size"},
      kThreadId,
      kStackOfBlock,
      {"kind", "TEXT", "heap or mmap"},
      {"freed_ns", "INTEGER", "time of the free; NULL: it was never freed, or it is a mapping"},
      {"lifetime_ns", "INTEGER", "from the allocation to the free; NULL as freed_ns"},
      {"freeing_thread_id", "INTEGER", "id of the thread that freed it; NULL: unknown"},
      {"freeing_stack_id", "INTEGER", "id of the stack that freed it; NULL: not recorded (--free-stacks)"},
      {"temporary", "INTEGER", "1: its thread freed it before its next allocation"},
      {"freed_in_realloc", "INTEGER", "1: a realloc freed it"},
  };
  static constexpr Columns kOfFrees = query::bit_of(kFreed) | query::bit_of(kLifetime) |
                                      query::bit_of(kFreeingThread) | query::bit_of(kFreeingStack) |
                                      query::bit_of(kTemporary) | query::bit_of(kFreedInRealloc);
  static bool needs_frees(Columns used) noexcept { return (used & kOfFrees) != 0; }

  using Rows = Stream<Allocation>;

  struct Scan {
    std::vector<Constraint> constraints;
    Range time;
    Range lifetime;
    bool frees = false;
    bool addresses = false;
  };

  /// The analysis that is read: of a part of the time, if that is enough. Null: the recording has no such time.
  static const replay::Analysis* analysis_of(Recording& recording, const Scan& scan, const replay::Progress& progress,
                                             std::unique_ptr<replay::Analysis>& opened) {
    const bool is_bounded = scan.time.low > 0 || scan.time.high != INT64_MAX;
    Recordings& all = recording.all();
    if (!is_bounded || all.selects_times() || recording.process().grows) return &recording.costs();
    std::int64_t end_ns = scan.time.high;
    if (scan.frees && end_ns != INT64_MAX)
      end_ns = scan.lifetime.high < INT64_MAX - end_ns ? end_ns + std::max<std::int64_t>(scan.lifetime.high, 0)
                                                       : INT64_MAX;
    if (end_ns < 0 || scan.time.low > scan.time.high) return nullptr;
    AnalysisRequest request;
    request.progress = progress;
    request.change = [&](TraceOptions& options) {
      constexpr double kMarginNs = 1000;  // more than a time as a double is rounded by
      const auto moment = [](double ns) { return replay::Moment{.value = std::max(ns, 0.0) / 1e9}; };
      options.selection.only_costs = true;
      if (scan.time.low > 0) options.selection.from = moment(static_cast<double>(scan.time.low) - kMarginNs);
      if (end_ns != INT64_MAX) options.selection.to = moment(static_cast<double>(end_ns) + kMarginNs);
    };
    try {
      opened = all.open(recording.process(), request);
    } catch (const replay::SelectionError&) {  // it begins after the end of the recording
      return nullptr;
    }
    return opened.get();
  }

  static void produce(Recording& recording, const Scan& scan, Rows::Writer& rows) {
    Recordings::Progress& shown = recording.all().progress();
    const replay::Progress progress = [&](const replay::Done& done) {
      rows.check();
      shown.share = done.share;
      shown.events = done.records;
    };
    std::unique_ptr<replay::Analysis> opened;
    const replay::Analysis* const analysis = analysis_of(recording, scan, progress, opened);
    if (analysis == nullptr) return;
    const BlockFilter filter = filter_of(scan.constraints, {kSize, kThread, kStack, kKind}, recording.process());
    const bool any_time = scan.time.low <= 0 && scan.time.high == INT64_MAX;
    const auto is_asked = [&](std::uint64_t time_ns, std::uint64_t size, std::uint32_t thread, std::uint32_t node,
                              bool is_mapping) {
      return (any_time || scan.time.contains(time_ns)) && filter.selects(size, thread, node, is_mapping);
    };
    const auto add_allocation = [&](const replay::ProfileEvent& event) {
      const bool is_mapping = event.subject == replay::Subject::kMapping;
      if (is_asked(event.time_ns, event.size, event.thread, event.node, is_mapping))
        rows.add({.time_ns = event.time_ns,
                  .address = event.address,
                  .size = event.size,
                  .node = event.node,
                  .thread = event.thread,
                  .is_mapping = is_mapping});
    };
    const auto add_free = [&](const replay::ProfileEvent& event) {
      const std::uint64_t lifetime_ns = event.time_ns - std::min(event.allocated_ns, event.time_ns);
      if (scan.lifetime.contains(lifetime_ns) &&
          is_asked(event.allocated_ns, event.size, event.thread, event.node, false))
        rows.add({.time_ns = event.allocated_ns,
                  .address = event.address,
                  .size = event.size,
                  .freed_ns = event.time_ns,
                  .node = event.node,
                  .thread = event.thread,
                  .freeing_thread = event.freeing_thread,
                  .freeing_node = event.freeing_node,
                  .freed = true,
                  .temporary = event.temporary,
                  .in_realloc = event.in_realloc});
    };
    replay::EventFilter which;
    which.of_kind = true;
    which.blocks_until_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(scan.time.high, 0));
    std::vector<std::uint8_t> nodes;
    if (filter.nodes) {
      nodes.assign(analysis->profile().nodes.size(), 0);
      for (const std::uint32_t node : *filter.nodes)
        if (node < nodes.size()) nodes[node] = 1;
      which.nodes = &nodes;
    }
    which.block_sizes = {.min_size = static_cast<std::uint64_t>(std::max<std::int64_t>(filter.size.low, 0)),
                         .max_size = filter.size.high == INT64_MAX
                                         ? std::numeric_limits<std::uint64_t>::max()
                                         : static_cast<std::uint64_t>(std::max<std::int64_t>(filter.size.high, 0))};
    if (!scan.frees && recording.all().kind() == model::Kind::kHeap) which.only_allocations = which.block_sizes;
    which.addresses = scan.addresses;
    if (scan.frees && recording.all().kind() != model::Kind::kMmap)
      which.visit_leaked = [&](const replay::LiveBlock& block) {
        if (is_asked(block.time_ns, block.size, block.thread, block.node, false))
          rows.add({.time_ns = block.time_ns,
                    .address = block.address,
                    .size = block.size,
                    .node = block.node,
                    .thread = block.thread});
      };
    analysis->for_each_event(
        [&](std::span<const replay::ProfileEvent> events) {
          for (const replay::ProfileEvent& event : events) {
            if (event.subject == replay::Subject::kMappingPiece) continue;
            const bool is_allocation = event.kind == replay::ResolvedKind::kAllocation;
            if (is_allocation && (!scan.frees || event.subject == replay::Subject::kMapping)) add_allocation(event);
            else if (scan.frees && event.kind == replay::ResolvedKind::kFree) add_free(event);
          }
        },
        progress, which);
    shown.share = 1;
  }

  class AllocationCursor : public query::Cursor {
   public:
    AllocationCursor(Recordings& recordings, std::span<const Constraint> constraints, Columns used)
        : recordings_(recordings), processes_(processes_asked(recordings, constraints, kStack)) {
      scan_.constraints.assign(constraints.begin(), constraints.end());
      scan_.time = query::range_of(constraints, kAllocated);
      scan_.lifetime = query::range_of(constraints, kLifetime);
      scan_.frees = needs_frees(used);
      scan_.addresses = (used & query::bit_of(kAddress)) != 0;
    }
    ~AllocationCursor() override { rows_.reset(); }  // before the recording that it reads

    bool next() override {
      for (;;) {
        if (rows_) {
          row_ = rows_->next();
          if (row_ != nullptr) return true;
          rows_.reset();
        }
        if (process_ == processes_.size()) return false;
        recording_ = recordings_.recording(processes_[process_++]);
        rows_.emplace([recording = recording_.get(), this](Rows::Writer& out) { produce(*recording, scan_, out); },
                      [this] { recordings_.wait(); });
      }
    }

    void column(int column, const Result& result) const override {
      const Allocation& row = *row_;
      switch (column) {
        case kProcess: return result.number(recording_->process().id);
        case kAllocated: return result.number(row.time_ns);
        case kAddress: return result.number(row.address);
        case kSize: return result.number(row.size);
        case kThread: return put_id(row.thread, result);
        case kStack: return result.signed_number(recording_->id_of(row.node));
        case kKind: return result.text(row.is_mapping ? "mmap" : "heap");
        case kFreed: return row.freed ? result.number(row.freed_ns) : void();
        case kLifetime: return row.freed ? result.number(row.freed_ns - std::min(row.time_ns, row.freed_ns)) : void();
        case kFreeingThread: return row.freed ? put_id(row.freeing_thread, result) : void();
        case kFreeingStack:
          return row.freed && row.freeing_node != model::kNoIndex
                     ? result.signed_number(recording_->id_of(row.freeing_node))
                     : void();
        case kTemporary: return result.boolean(row.temporary);
        case kFreedInRealloc: return result.boolean(row.in_realloc);
        default: return;
      }
    }
    /// The order of rows depends on what is asked for, and a thread may get one address twice at one time.
    std::int64_t row_id() const override {
      throw query::SqlError(
          "allocations has no rowid, which RIGHT and FULL JOIN need, too; use it as the left table of a LEFT JOIN",
          std::nullopt);
    }

   private:
    void put_id(std::uint32_t thread, const Result& result) const {
      if (thread != replay::kNoThread) result.signed_number(recording_->id_of(thread));
    }

    Recordings& recordings_;
    const std::vector<std::uint32_t> processes_;
    Scan scan_;
    std::size_t process_ = 0;
    std::shared_ptr<Recording> recording_;
    std::optional<Rows> rows_;
    const Allocation* row_ = nullptr;
  };

  Recordings& recordings_;
};

}  // namespace

void add_allocations_table(Recordings& recordings, Tables& tables) {
  tables.push_back(std::make_unique<AllocationsTable>(recordings));
}

}  // namespace heapprof::cli
