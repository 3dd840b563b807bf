// The tables of single blocks: allocations and live_blocks.
//
// An allocation is known whole when its block is freed, or is live at the end. So if a query reads when or how blocks
// were freed, the rows are made of frees, else of allocations; both are the same rows in another order. A part of the
// time is read from the last snapshot before it, to its end, or to the end of the recording if frees are needed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analyzer/base/mix_bits.h"
#include "analyzer/cli/options/selection.h"
#include "analyzer/cli/query/indexed_table.h"
#include "analyzer/cli/query/stream.h"
#include "analyzer/cli/query/tables.h"
#include "analyzer/query/database.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/views/block_page.h"
#include "common/trace_format.h"

namespace heapprof::cli {
namespace {

using query::Columns;
using query::Constraint;
using query::Range;
using query::Result;

constexpr query::Column kThreadId = {"thread_id", "INTEGER", "id of the thread that allocated it; NULL: unknown"};
constexpr query::Column kStackOfBlock = {"stack_id", "INTEGER", "id of the stack that allocated it"};

/// Which blocks of one process a query asks for.
struct BlockFilter {
  Range size;
  std::optional<std::vector<std::uint32_t>> threads;  ///< sorted; nullopt: all
  std::optional<std::vector<std::uint32_t>> nodes;    ///< likewise
  bool heap = true;
  bool mappings = true;

  bool selects(std::uint64_t bytes, std::uint32_t thread, std::uint32_t node, bool is_mapping) const {
    if (!(is_mapping ? mappings : heap) || !size.contains(bytes)) return false;
    if (threads && !std::binary_search(threads->begin(), threads->end(), thread)) return false;
    return !nodes || std::binary_search(nodes->begin(), nodes->end(), node);
  }
};

struct BlockColumns {
  int size, thread, stack, kind;
};

BlockFilter filter_of(std::span<const Constraint> constraints, const BlockColumns& columns,
                      const RecordedProcess& process) {
  BlockFilter filter;
  filter.size = query::range_of(constraints, columns.size);
  filter.threads = indexes_asked(constraints, columns.thread, process);
  filter.nodes = indexes_asked(constraints, columns.stack, process);
  filter.heap = query::can_be(constraints, columns.kind, "heap");
  filter.mappings = query::can_be(constraints, columns.kind, "mmap");
  return filter;
}

// ---- allocations ----------------------------------------------------------------------------------------

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
      {"size_bytes", "INTEGER", "size that was asked for"},
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

// ---- live_blocks ----------------------------------------------------------------------------------------

/// Whether `blocks` lists the mapping.
bool is_listed(const replay::LiveMapping& mapping, model::Kind kind) noexcept {
  if ((mapping.flags & kMapReserve) != 0 || mapping.before_slice) return false;
  return kind == model::Kind::kMmap || (mapping.flags & kMapFromAllocator) == 0;
}

class LiveBlocksTable : public query::Table {
 public:
  explicit LiveBlocksTable(Recordings& recordings) : recordings_(recordings) {}
  const char* name() const override { return "live_blocks"; }
  const char* help() const override {
    return "The blocks that are live at a moment: live_blocks(at), with nanoseconds, or a text as of --live-at; "
           "without it, those of heapprof blocks";
  }
  std::span<const query::Column> columns() const override { return kColumns; }
  query::Estimate estimate(Columns equal, Columns) const override {
    return {1e7, (equal & ~query::bit_of(kAt)) != 0 ? 1e4 : 1e6};
  }
  std::unique_ptr<query::Cursor> open(std::span<const Constraint> constraints, Columns) override {
    return std::make_unique<BlockCursor>(recordings_, constraints);
  }

 private:
  enum : int { kProcess, kAddress, kSize, kAllocated, kAge, kThread, kStack, kKind, kAt };
  static constexpr query::Column kColumns[] = {
      kProcessId,
      {"address", "INTEGER", "address of the block; its number in a compacted trace without addresses"},
      {"size_bytes", "INTEGER", "size that was asked for"},
      {"allocated_ns", "INTEGER", "time of the allocation; NULL: a mapping"},
      {"age_ns", "INTEGER", "from the allocation to the moment; NULL: a mapping"},
      kThreadId,
      kStackOfBlock,
      {"kind", "TEXT", "heap or mmap"},
      {"at", "", "the moment, the argument of the table", true},
  };

  class BlockCursor : public query::Cursor {
   public:
    BlockCursor(Recordings& recordings, std::span<const Constraint> constraints)
        : recordings_(recordings), constraints_(constraints.begin(), constraints.end()),
          processes_(processes_asked(recordings, constraints, kStack)) {
      for (const Constraint& one : constraints)
        if (one.column == kAt && !one.values.empty()) take_moment(one.values.front());
    }

    bool next() override {
      if (has_no_moment_) return false;
      while (at_ + 1 >= blocks_.size()) {
        if (process_ == processes_.size()) return false;
        read(processes_[process_++]);
        if (!blocks_.empty()) {
          at_ = 0;
          return true;
        }
      }
      ++at_;
      return true;
    }

    void column(int column, const Result& result) const override {
      const views::ListedBlock& block = blocks_[at_];
      const bool is_mapping = block.time_ns == views::kUnknownTime;
      switch (column) {
        case kProcess: return result.number(recording_->process().id);
        case kAddress: return result.number(block.address);
        case kSize: return result.number(block.size_bytes);
        case kAllocated: return is_mapping ? void() : result.number(block.time_ns);
        case kAge: return is_mapping ? void() : result.number(at_ns_ - std::min(block.time_ns, at_ns_));
        case kThread:
          return block.thread == replay::kNoThread ? void() : result.signed_number(recording_->id_of(block.thread));
        case kStack: return result.signed_number(recording_->id_of(block.node));
        case kKind: return result.text(is_mapping ? "mmap" : "heap");
        case kAt: return result.number(at_ns_);
        default: return;
      }
    }
    /// A hash of what no other row of the moment has: of a million blocks, two have the same one with a probability
    /// of 3e-8.
    std::int64_t row_id() const override {
      const views::ListedBlock& block = blocks_[at_];
      std::uint64_t hash = mix_bits(recording_->process().id);
      for (const std::uint64_t part : {at_ns_, block.address, block.time_ns}) hash = mix_bits(hash + part);
      return static_cast<std::int64_t>(hash);
    }

   private:
    void take_moment(const query::Value& value) {
      if (const auto* const ns = std::get_if<std::int64_t>(&value); ns != nullptr && *ns >= 0) {
        moment_ = replay::Moment{.value = static_cast<double>(*ns) / 1e9,
                                 .text = replay::exact_time(static_cast<std::uint64_t>(*ns)),
                                 .name = "live_blocks(" + std::to_string(*ns) + ")"};
        return;
      }
      std::string given = "NULL";
      if (const auto* const text = std::get_if<std::string>(&value)) {
        moment_ = parse_moment_or_mark(*text);
        if (moment_) {
          // As a mark of this name, "peak" is the moment that the opener resolves.
          if (moment_->mark.empty()) moment_->name = "live_blocks('" + *text + "')";
          return;
        }
        given = *text;
      } else if (const auto* const real = std::get_if<double>(&value)) {
        given = std::to_string(*real);
      } else if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
        given = std::to_string(*whole);
      } else {
        has_no_moment_ = true;
        return;
      }
      throw replay::SelectionError(
          "invalid value '" + given +
          "' for live_blocks(at); expected a whole number of nanoseconds, or a text: " + kMomentOrMarkExamples);
    }

    void add(const replay::LiveBlock& block) {
      if (filter_.selects(block.size, block.thread, block.node, false))
        blocks_.push_back({block.time_ns, block.address, block.size, block.node, block.thread});
    }
    void add(const replay::LiveMapping& mapping) {
      const std::uint64_t size = mapping.end - mapping.begin;
      if (is_listed(mapping, recordings_.kind()) && filter_.selects(size, mapping.thread, mapping.node, true))
        blocks_.push_back({views::kUnknownTime, mapping.begin, size, mapping.node, mapping.thread});
    }

    void read(std::uint32_t id) {
      recording_ = recordings_.recording(id);
      blocks_.clear();
      const RecordedProcess& process = recording_->process();
      const bool heap = recordings_.kind() != model::Kind::kMmap;
      const bool mappings = recordings_.kind() != model::Kind::kHeap;
      filter_ = filter_of(constraints_, {kSize, kThread, kStack, kKind}, process);
      if (process.grows) return read_growing(heap, mappings);
      AnalysisRequest request;
      request.change = [&](TraceOptions& options) {
        options.selection.only_live = true;
        if (!moment_) return;
        options.selection.live_at = moment_;
        options.texts.live_at.clear();
      };
      if (heap) request.visit_block = [&](const replay::LiveBlock& block) { add(block); };
      if (mappings) request.visit_mapping = [&](const replay::LiveMapping& mapping) { add(mapping); };
      const std::unique_ptr<replay::Analysis> analysis = recordings_.open(process, request);
      at_ns_ = analysis->profile().live_at_ns.value_or(analysis->profile().end_ns());
    }

    void read_growing(bool heap, bool mappings) {
      const replay::Analysis& analysis = recording_->costs();
      at_ns_ = analysis.profile().live_at_ns.value_or(analysis.profile().end_ns());
      if (!moment_) {
        if (heap)
          for (const replay::LiveBlock& block : recording_->live_blocks()) add(block);
        if (mappings)
          for (const replay::LiveMapping& mapping : recording_->live_mappings()) add(mapping);
        return;
      }
      if (!heap || mappings)
        throw replay::SelectionError(recording_->process().trace +
                                     ": live_blocks(at) lists no mappings of a recording that is still written; use "
                                     "--kind heap");
      const bool is_peak = moment_->mark == "peak" && moment_->text == "peak";
      const replay::ResolvedMoment moment = analysis.moment_of(is_peak ? peak_of(analysis) : *moment_);
      at_ns_ = moment.ns;
      analysis.for_each_live_at(std::span(&moment, 1),
                                [&](std::size_t, const replay::LiveBlock& block) { add(block); });
    }

    /// The peak of all blocks of the recording, of which `analysis` has the selected ones.
    replay::Moment peak_of(const replay::Analysis& analysis) {
      std::unique_ptr<replay::Analysis> whole;
      if (!analysis.profile().selection_text.empty()) {
        AnalysisRequest request;
        request.change = [](TraceOptions& options) {
          options.texts = {};
          options.selection = {};
          options.selection.only_costs = true;
        };
        whole = recordings_.open(recording_->process(), request);
      }
      const replay::Analysis& of = whole != nullptr ? *whole : analysis;
      if (of.profile().totals.peak_bytes == 0)
        throw replay::SelectionError(recording_->process().trace +
                                     ": no byte was live, so there is no peak; give another moment");
      return {.value = static_cast<double>(of.profile().peak_time_ns) / 1e9, .position = of.peak_position()};
    }

    Recordings& recordings_;
    const std::vector<Constraint> constraints_;
    const std::vector<std::uint32_t> processes_;
    std::optional<replay::Moment> moment_;
    bool has_no_moment_ = false;  ///< it is NULL
    std::size_t process_ = 0;
    std::shared_ptr<Recording> recording_;
    BlockFilter filter_;
    std::vector<views::ListedBlock> blocks_;
    std::size_t at_ = 0;
    std::uint64_t at_ns_ = 0;
  };

  Recordings& recordings_;
};

}  // namespace

void add_block_tables(Recordings& recordings, Tables& tables) {
  tables.push_back(std::make_unique<AllocationsTable>(recordings));
  tables.push_back(std::make_unique<LiveBlocksTable>(recordings));
}

}  // namespace heapprof::cli
