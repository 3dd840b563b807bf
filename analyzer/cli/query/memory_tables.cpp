// The tables of the memory of the process: its mappings, samples of resident memory, and which pages were resident.
#include <algorithm>
#include <limits>
#include <utility>

#include "analyzer/cli/query/indexed_table.h"
#include "analyzer/cli/query/stream.h"
#include "analyzer/cli/query/tables.h"
#include "analyzer/rss/recorded_residency.h"
#include "common/trace_format.h"

namespace heapprof::cli {
namespace {

using query::Columns;
using query::Constraint;
using query::Result;

/// A table of which each process has rows that are read from its trace: make(recording, rows) adds them.
template <typename Row>
class ReadTable : public query::Table {
 public:
  using Rows = Stream<Row>;
  struct Spec {
    const char* name;
    const char* help;
    std::vector<Field<std::pair<Recording*, Row>>> fields;
    double rows;
    std::function<void(Recording&, const replay::Progress&, typename Rows::Writer&)> produce;
  };

  ReadTable(Recordings& recordings, Spec spec) : recordings_(recordings), spec_(std::move(spec)) {
    for (const auto& field : spec_.fields) columns_.push_back(field.column);
  }
  const char* name() const override { return spec_.name; }
  const char* help() const override { return spec_.help; }
  std::span<const query::Column> columns() const override { return columns_; }
  query::Estimate estimate(Columns, Columns) const override { return {1e7, spec_.rows}; }
  std::unique_ptr<query::Cursor> open(std::span<const Constraint> constraints, Columns) override {
    return std::make_unique<ReadCursor>(*this, constraints);
  }

 private:
  class ReadCursor : public query::Cursor {
   public:
    ReadCursor(const ReadTable& table, std::span<const Constraint> constraints)
        : table_(table), processes_(processes_asked(table.recordings_, constraints, -1)) {}
    ~ReadCursor() override { rows_.reset(); }  // before the recording that it reads

    bool next() override {
      for (;;) {
        if (rows_) {
          if (const Row* const row = rows_->next()) {
            row_.second = *row;
            ++number_;
            return true;
          }
          rows_.reset();
        }
        if (process_ == processes_.size()) return false;
        recording_ = table_.recordings_.recording(processes_[process_++]);
        row_.first = recording_.get();
        number_ = 0;
        rows_.emplace(
            [recording = recording_.get(), this](typename Rows::Writer& out) {
              Recordings::Progress& shown = recording->all().progress();
              table_.spec_.produce(
                  *recording,
                  [&](const replay::Done& done) {
                    out.check();
                    shown.share = done.share;
                    shown.events = done.records;
                  },
                  out);
              shown.share = 1;
            },
            [this] { table_.recordings_.wait(); });
      }
    }
    void column(int column, const Result& result) const override {
      table_.spec_.fields[static_cast<std::size_t>(column)].put(row_, result);
    }
    /// Every scan reads all rows of a process.
    std::int64_t row_id() const override { return recording_->id_of(number_); }

   private:
    const ReadTable& table_;
    const std::vector<std::uint32_t> processes_;
    std::size_t process_ = 0;
    std::shared_ptr<Recording> recording_;
    std::optional<Rows> rows_;
    std::pair<Recording*, Row> row_{};
    std::uint32_t number_ = 0;  ///< of the row, from 1
  };

  Recordings& recordings_;
  const Spec spec_;
  std::vector<query::Column> columns_;
};

template <typename Row>
Field<std::pair<Recording*, Row>> id_of_process() {
  return {kProcessId, [](const std::pair<Recording*, Row>& row, const Result& result) {
            result.number(row.first->process().id);
          }};
}

template <typename Row, typename Value>
Field<std::pair<Recording*, Row>> figure_of_row(const char* name, const char* help, Value value) {
  return {{name, "INTEGER", help},
          [value](const std::pair<Recording*, Row>& row, const Result& result) { result.number(value(row.second)); }};
}

template <typename Row, typename Value>
Field<std::pair<Recording*, Row>> yes_or_no_of_row(const char* name, const char* help, Value value) {
  return {{name, "INTEGER", help}, [value](const std::pair<Recording*, Row>& row, const Result& result) {
            result.boolean(value(row.second));
          }};
}

template <typename Row, typename Value>
Field<std::pair<Recording*, Row>> words_of_row(const char* name, const char* help, Value value) {
  return {{name, "TEXT", help}, [value](const std::pair<Recording*, Row>& row, const Result& result) {
            put_text(result, value(row.second));
          }};
}

std::unique_ptr<query::Table> make_mappings(Recordings& recordings) {
  using Row = replay::LiveMapping;
  using Read = ReadTable<Row>;
  return std::make_unique<Read>(
      recordings,
      typename Read::Spec{
          .name = "mappings",
          .help = "What the program has mapped at --live-at, or at the end: mmap, mremap and brk",
          .fields =
              {
                  id_of_process<Row>(),
                  figure_of_row<Row>("begin_address", "its first byte", [](const Row& row) { return row.begin; }),
                  figure_of_row<Row>("size_bytes", "its size", [](const Row& row) { return row.end - row.begin; }),
                  {{"thread_id", "INTEGER", "id of the thread that mapped it; NULL: unknown"},
                   [](const auto& row, const Result& result) {
                     if (row.second.thread != replay::kNoThread)
                       result.signed_number(row.first->id_of(row.second.thread));
                   }},
                  {{"stack_id", "INTEGER", "id of the stack that mapped it"},
                   [](const auto& row, const Result& result) {
                     result.signed_number(row.first->id_of(row.second.node));
                   }},
                  yes_or_no_of_row<Row>("reserved", "1: address space without access (PROT_NONE)",
                                        [](const Row& row) { return (row.flags & kMapReserve) != 0; }),
                  yes_or_no_of_row<Row>("from_allocator", "1: an allocator made it, for blocks",
                                        [](const Row& row) { return (row.flags & kMapFromAllocator) != 0; }),
                  yes_or_no_of_row<Row>("before_slice", "1: it is older than --from",
                                        [](const Row& row) { return row.before_slice; }),
              },
          .rows = 200,
          .produce = [](Recording& recording, const replay::Progress& progress, Read::Rows::Writer& out) {
            if (recording.process().grows) {
              for (const Row& mapping : recording.live_mappings()) out.add(mapping);
              return;
            }
            AnalysisRequest request;
            request.progress = progress;
            request.change = [](TraceOptions& options) { options.selection.only_live = true; };
            request.visit_mapping = [&](const Row& mapping) { out.add(mapping); };
            recording.all().open(recording.process(), request);
          }});
}

/// Without a slice, samples and snapshots may be after the end.
bool is_in_slice(const model::Profile& profile, std::uint64_t time_ns) noexcept {
  return time_ns >= profile.begin_ns() && (!profile.slice || time_ns <= profile.end_ns());
}

std::unique_ptr<query::Table> make_samples(Recordings& recordings) {
  using Row = rss::ResidentSample;
  using Read = ReadTable<Row>;
  return std::make_unique<Read>(
      recordings,
      typename Read::Spec{
          .name = "samples",
          .help = "One row for each sample of resident memory",
          .fields =
              {
                  id_of_process<Row>(),
                  figure_of_row<Row>("time_ns", "time of the sample", [](const Row& row) { return row.time_ns; }),
                  figure_of_row<Row>("rss_bytes", "resident memory",
                                     [](const Row& row) { return row.resident_bytes; }),
                  {{"shared_bytes", "INTEGER", "pages of files and of shared memory; NULL: not recorded"},
                   [](const auto& row, const Result& result) {
                     if (row.second.shared_bytes) result.number(*row.second.shared_bytes);
                   }},
              },
          .rows = 10'000,
          .produce = [](Recording& recording, const replay::Progress& progress, Read::Rows::Writer& out) {
            const model::Profile& profile = recording.profile();
            rss::for_each_sample(
                recording.costs().file(),
                [&](const Row& sample) {
                  if (is_in_slice(profile, sample.time_ns)) out.add(sample);
                },
                progress);
          }});
}

/// A mapping in a snapshot.
struct ResidentRow {
  std::uint64_t snapshot = 0;
  std::uint64_t begin_ns = 0;
  std::string reason;
  bool complete = false;
  std::uint64_t begin = 0, size = 0, resident = 0, swapped = 0;
  std::string name;
  std::string access;
  bool is_shared = false;
};

void add_mappings_of(const trace::ResidencySnapshot& snapshot, Stream<ResidentRow>::Writer& out) {
  for (const trace::ResidentMapping& mapping : snapshot.mappings) {
    ResidentRow row;
    row.snapshot = snapshot.number;
    row.begin_ns = snapshot.begin_ns;
    row.reason = rss::name_of(snapshot.reason);
    row.complete = snapshot.complete;
    row.begin = mapping.begin;
    row.size = mapping.end - mapping.begin;
    snapshot.pages.for_each_range(mapping.begin, mapping.end,
                                  [&](const AddressRange& range, const trace::PageState& state) {
                                    if (state.resident()) row.resident += range.end - range.begin;
                                    if (state.swapped) row.swapped += range.end - range.begin;
                                  });
    row.name = mapping.name;
    row.access = {mapping.readable ? 'r' : '-', mapping.writable ? 'w' : '-', mapping.executable ? 'x' : '-'};
    row.is_shared = mapping.shared;
    out.add(row);
  }
}

std::unique_ptr<query::Table> make_residency(Recordings& recordings) {
  using Row = ResidentRow;
  using Read = ReadTable<Row>;
  return std::make_unique<Read>(
      recordings,
      typename Read::Spec{
          .name = "residency",
          .help = "One row for each mapping in each snapshot of resident pages",
          .fields =
              {
                  id_of_process<Row>(),
                  figure_of_row<Row>("snapshot_id", "number of the snapshot, from 1; of its process",
                                     [](const Row& row) { return row.snapshot; }),
                  figure_of_row<Row>("time_ns", "when the snapshot began",
                                     [](const Row& row) { return row.begin_ns; }),
                  words_of_row<Row>("reason", "mark, request, exit or change",
                                    [](const Row& row) { return row.reason; }),
                  yes_or_no_of_row<Row>("complete", "0: parts of the snapshot are missing",
                                        [](const Row& row) { return row.complete; }),
                  figure_of_row<Row>("begin_address", "first byte of the mapping",
                                     [](const Row& row) { return row.begin; }),
                  figure_of_row<Row>("size_bytes", "its size", [](const Row& row) { return row.size; }),
                  figure_of_row<Row>("resident_bytes", "of it in memory",
                                     [](const Row& row) { return row.resident; }),
                  figure_of_row<Row>("swapped_bytes", "of it in swap", [](const Row& row) { return row.swapped; }),
                  words_of_row<Row>("name", "its file, [heap], [stack], ...; NULL: anonymous",
                                    [](const Row& row) { return row.name; }),
                  words_of_row<Row>("access", "rwx, with - for what is missing",
                                    [](const Row& row) { return row.access; }),
                  yes_or_no_of_row<Row>("shared", "1: MAP_SHARED", [](const Row& row) { return row.is_shared; }),
              },
          .rows = 10'000,
          .produce = [](Recording& recording, const replay::Progress&, Read::Rows::Writer& out) {
            const model::Profile& profile = recording.profile();
            trace::for_each_snapshot(recording.costs().file(), [&](trace::ResidencySnapshot&& snapshot) {
              out.check();
              if (is_in_slice(profile, snapshot.begin_ns)) add_mappings_of(snapshot, out);
            });
          }});
}

}  // namespace

void add_memory_tables(Recordings& recordings, Tables& tables) {
  tables.push_back(make_mappings(recordings));
  tables.push_back(make_samples(recordings));
  tables.push_back(make_residency(recordings));
}

}  // namespace heapprof::cli
