// The table live_blocks.
#include <algorithm>
#include <utility>

#include "analyzer/base/mix_bits.h"
#include "analyzer/cli/options/selection.h"
#include "analyzer/cli/query/block_filter.h"
#include "analyzer/cli/query/indexed_table.h"
#include "analyzer/cli/query/tables.h"
#include "analyzer/replay/analysis/moments.h"
#include "analyzer/views/block_page.h"
#include "common/trace_format.h"

namespace heapprof::cli {
namespace {

using query::Columns;
using query::Constraint;
using query::Result;

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
      {"size_bytes", "INTEGER", "requested size"},
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

void add_live_blocks_table(Recordings& recordings, Tables& tables) {
  tables.push_back(std::make_unique<LiveBlocksTable>(recordings));
}

}  // namespace heapprof::cli
