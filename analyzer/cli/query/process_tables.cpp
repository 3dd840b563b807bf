// The tables of what a recording says about its process as a whole: processes, labels, threads, modules, timeline,
// marks.
#include <iterator>
#include <utility>

#include "analyzer/cli/query/indexed_table.h"
#include "analyzer/cli/query/tables.h"
#include "analyzer/cli/text/recording_text.h"

namespace heapprof::cli {
namespace {

using model::Profile;
using query::Result;

/// A row of a list in the profile.
template <typename Element>
struct ElementRow {
  Recording& recording;
  const Profile& profile;
  const Element& element;
  std::uint32_t index;
};

struct ProcessRow {
  Recording& recording;
  const Profile& profile;
};

/// The id of the process, for rows that have a recording.
template <typename Row>
Field<Row> process_field() {
  return {kProcessId, [](const Row& row, const Result& result) { result.number(row.recording.process().id); }};
}

/// A column of a whole number.
template <typename Row, typename Value>
Field<Row> number_field(const char* name, const char* help, Value value) {
  return {{name, "INTEGER", help}, [value](const Row& row, const Result& result) { result.number(value(row)); }};
}

template <typename Row, typename Value>
Field<Row> text_field(const char* name, const char* help, Value value) {
  return {{name, "TEXT", help}, [value](const Row& row, const Result& result) { put_text(result, value(row)); }};
}

template <typename Row>
Field<Row> id_field(const char* name, const char* help) {
  return {{name, "INTEGER", help},
          [](const Row& row, const Result& result) { result.signed_number(row.recording.id_of(row.index)); }};
}

std::unique_ptr<query::Table> make_processes(Recordings& recordings) {
  using Row = ProcessRow;
  std::vector<Field<Row>> fields = {
      process_field<Row>(),
      {{"parent_process_id", "INTEGER", "id of the process that started, forked or executed it; NULL: not recorded"},
       [](const Row& row, const Result& result) {
         if (row.recording.process().from) result.number(*row.recording.process().from);
       }},
      number_field<Row>("pid", "process id in the system", [](const Row& row) { return row.profile.recording.pid; }),
      number_field<Row>("parent_pid", "process id of its parent",
                        [](const Row& row) { return row.profile.recording.parent_pid; }),
      text_field<Row>("program", "path of the executable",
                      [](const Row& row) { return row.profile.recording.program; }),
      text_field<Row>("command", "command line, quoted for a shell",
                      [](const Row& row) { return command_of(row.profile); }),
      text_field<Row>("host", "name of the machine", [](const Row& row) { return row.profile.recording.host; }),
      text_field<Row>("trace", "path of the recording", [](const Row& row) { return row.recording.process().trace; }),
      text_field<Row>("began", "root, started, forked or executed",
                      [](const Row& row) { return row.recording.process().began; }),
      number_field<Row>("start_ns", "when the recording began, since the first one did",
                        [](const Row& row) { return row.recording.process().start_ns; }),
      number_field<Row>("start_realtime_ns", "when it began, since 1970",
                        [](const Row& row) { return row.profile.recording.start_realtime_ns; }),
      number_field<Row>("duration_ns", "length of the recording",
                        [](const Row& row) { return row.profile.recording.duration_ns; }),
      text_field<Row>("ended_by", "exit, exec, signal, stopped, running or unknown",
                      [](const Row& row) { return row.profile.integrity.ended_by; }),
      {{"end_status", "INTEGER", "exit status, or number of the signal"},
       [](const Row& row, const Result& result) {
         if (row.profile.integrity.end_status) result.signed_number(*row.profile.integrity.end_status);
       }},
      {{"complete", "INTEGER", "1: nothing that was committed is missing"},
       [](const Row& row, const Result& result) { result.boolean(row.profile.integrity.complete); }},
      {{"events_lost", "INTEGER", "NULL: unknown"},
       [](const Row& row, const Result& result) {
         if (row.profile.integrity.events_lost) result.number(*row.profile.integrity.events_lost);
       }},
      number_field<Row>("damaged_bytes", "bytes of the trace that could not be read",
                        [](const Row& row) { return row.profile.integrity.bytes_damaged; }),
      number_field<Row>("trace_bytes", "size of the trace",
                        [](const Row& row) { return row.profile.recording.trace_bytes; }),
      number_field<Row>("events", "allocations, frees and failed allocations",
                        [](const Row& row) { return row.profile.events(); }),
  };
  static constexpr std::tuple<const char*, const char*, std::uint64_t model::HeapTotals::*> kHeap[] = {
      {"allocations", "of the heap, as the next ones", &model::HeapTotals::allocations},
      {"allocated_bytes", "bytes of all allocations", &model::HeapTotals::allocated_bytes},
      {"frees", "number of frees", &model::HeapTotals::frees},
      {"failed", "allocations that failed", &model::HeapTotals::failed},
      {"peak_bytes", "most live bytes", &model::HeapTotals::peak_bytes},
      {"peak_time_ns", "when that was", &model::HeapTotals::peak_time_ns},
      {"peak_blocks", "blocks that were live then", &model::HeapTotals::peak_blocks},
      {"leaked_bytes", "bytes that were never freed", &model::HeapTotals::leaked_bytes},
      {"leaked_blocks", "blocks that were never freed", &model::HeapTotals::leaked_blocks},
      {"temporary_allocations", "allocations that their thread freed before its next one",
       &model::HeapTotals::temporary_allocations},
      {"unmatched_frees", "frees of blocks whose allocation is not in the trace",
       &model::HeapTotals::unmatched_frees},
      {"implied_frees", "frees that are not in the trace: the address was used again",
       &model::HeapTotals::implied_frees},
  };
  for (const auto& [name, help, member] : kHeap)
    fields.push_back(
        number_field<Row>(name, help, [figure = member](const Row& row) { return row.profile.heap.*figure; }));
  static constexpr std::tuple<const char*, const char*, std::uint64_t model::MmapTotals::*> kMmap[] = {
      {"mappings", "number of mappings", &model::MmapTotals::mappings},
      {"mapped_bytes", "bytes of all mappings", &model::MmapTotals::mapped_bytes},
      {"mapped_peak_bytes", "most bytes that were mapped at once", &model::MmapTotals::peak_bytes},
      {"mapped_live_bytes", "bytes that are mapped at the end", &model::MmapTotals::live_bytes},
  };
  for (const auto& [name, help, member] : kMmap)
    fields.push_back(
        number_field<Row>(name, help, [figure = member](const Row& row) { return row.profile.mmap.*figure; }));
  fields.push_back({{"peak_rss_bytes", "INTEGER", "most resident memory in a sample; NULL: there is no sample"},
                    [](const Row& row, const Result& result) {
                      const std::uint64_t bytes = row.profile.highest_resident_bytes();
                      if (bytes != 0) result.number(bytes);
                    }});
  return std::make_unique<IndexedTable<Row>>(
      recordings, typename IndexedTable<Row>::Spec{.name = "processes",
                                                   .help = "One row for each recording: the process, and its totals",
                                                   .fields = std::move(fields),
                                                   .rows = 10,
                                                   .count = [](Recording&) { return std::size_t{1}; },
                                                   .row =
                                                       [](Recording& recording, std::size_t) {
                                                         return Row{recording, recording.profile()};
                                                       }});
}

struct LabelRow {
  Recording& recording;
  const Labels::value_type& label;
};

std::unique_ptr<query::Table> make_labels(Recordings& recordings) {
  using Row = LabelRow;
  std::vector<Field<Row>> fields = {
      process_field<Row>(),
      text_field<Row>("key", "of the label", [](const Row& row) { return row.label.first; }),
      {{"value", "TEXT", "of the label; may be empty"},
       [](const Row& row, const Result& result) { result.text(render::clean_utf8(row.label.second)); }},
  };
  return std::make_unique<IndexedTable<Row>>(
      recordings, typename IndexedTable<Row>::Spec{
                      .name = "labels",
                      .help = "One row for each label of a recording (record --label)",
                      .fields = std::move(fields),
                      .rows = 10,
                      .count = [](Recording& recording) { return recording.profile().recording.labels.size(); },
                      .row =
                          [](Recording& recording, std::size_t i) {
                            const Labels& labels = recording.profile().recording.labels;
                            return Row{recording, *std::next(labels.begin(), static_cast<std::ptrdiff_t>(i))};
                          }});
}

std::unique_ptr<query::Table> make_threads(Recordings& recordings) {
  using Row = ElementRow<model::Thread>;
  std::vector<Field<Row>> fields = {
      process_field<Row>(),
      id_field<Row>("thread_id", "id of the thread in these tables"),
      number_field<Row>("tid", "thread id in the system", [](const Row& row) { return row.element.tid; }),
      text_field<Row>("name", "name of the thread", [](const Row& row) { return row.element.name; }),
      number_field<Row>("start_ns", "time of its first event", [](const Row& row) { return row.element.start_ns; }),
  };
  add_figures(fields, [](const Row& row) {
    const std::vector<model::Costs>& costs = row.profile.thread_costs;
    return row.index < costs.size() ? &costs[row.index] : nullptr;
  });
  return std::make_unique<IndexedTable<Row>>(
      recordings, typename IndexedTable<Row>::Spec{
                      .name = "threads",
                      .help = "One row for each thread, with what it allocated; figures of the heap only, with "
                              "--kind mmap and all NULL",
                      .fields = std::move(fields),
                      .rows = 50,
                      .count = [](Recording& recording) { return recording.profile().threads.size(); },
                      .row =
                          [](Recording& recording, std::size_t i) {
                            return Row{recording, recording.profile(), recording.profile().threads[i],
                                       static_cast<std::uint32_t>(i)};
                          },
                      .key = 1,
                      .find = [](Recording& recording, std::uint32_t index) -> std::optional<std::size_t> {
                        if (index >= recording.profile().threads.size()) return std::nullopt;
                        return index;
                      }});
}

std::unique_ptr<query::Table> make_modules(Recordings& recordings) {
  using Row = ElementRow<model::Module>;
  std::vector<Field<Row>> fields = {
      process_field<Row>(),
      id_field<Row>("module_id", "id of the module in these tables"),
      text_field<Row>("path", "its file; NULL: code outside every file",
                      [](const Row& row) { return row.element.path; }),
      text_field<Row>("build_id", "build ID", [](const Row& row) { return row.element.build_id; }),
      number_field<Row>("first_address", "where it was first loaded",
                        [](const Row& row) { return row.element.first_address; }),
      number_field<Row>("map_bytes", "size of its mappings", [](const Row& row) { return row.element.map_bytes; }),
      number_field<Row>("load_bias", "address less that in the file",
                        [](const Row& row) { return row.element.load_bias; }),
      number_field<Row>("loads", "how often it was loaded", [](const Row& row) { return row.element.loads; }),
      {{"is_main", "INTEGER", "1: the executable"},
       [](const Row& row, const Result& result) { result.boolean(row.element.is_main); }},
  };
  return std::make_unique<IndexedTable<Row>>(
      recordings, typename IndexedTable<Row>::Spec{
                      .name = "modules",
                      .help = "One row for each program or library that was loaded",
                      .fields = std::move(fields),
                      .rows = 100,
                      .count = [](Recording& recording) { return recording.profile().modules.size(); },
                      .row =
                          [](Recording& recording, std::size_t i) {
                            return Row{recording, recording.profile(), recording.profile().modules[i],
                                       static_cast<std::uint32_t>(i)};
                          },
                      .key = 1,
                      .find = [](Recording& recording, std::uint32_t index) -> std::optional<std::size_t> {
                        if (index >= recording.profile().modules.size()) return std::nullopt;
                        return index;
                      }});
}

using TimelineRow = ElementRow<model::Timeline::Bucket>;

/// The end of a part of the time; as `timeline` prints it.
std::uint64_t end_of_part(const TimelineRow& row) {
  const std::vector<model::Timeline::Bucket>& buckets = row.profile.timeline.buckets;
  return row.index + 1 < buckets.size() ? buckets[row.index + 1].start_ns
                                        : std::max(row.profile.end_ns(), row.element.start_ns);
}

std::unique_ptr<query::Table> make_timeline(Recordings& recordings) {
  using Row = TimelineRow;
  std::vector<Field<Row>> fields = {
      process_field<Row>(),
      number_field<Row>("start_ns", "begin of this part of the time",
                        [](const Row& row) { return row.element.start_ns; }),
      number_field<Row>("time_ns", "its end", end_of_part),
      number_field<Row>("live_bytes", "live at its end", [](const Row& row) { return row.element.last_bytes; }),
      number_field<Row>("live_blocks", "live at its end", [](const Row& row) { return row.element.last_blocks; }),
      number_field<Row>("lowest_bytes", "fewest live bytes in it",
                        [](const Row& row) { return row.element.min_bytes; }),
      number_field<Row>("highest_bytes", "most live bytes in it",
                        [](const Row& row) { return row.element.max_bytes; }),
      number_field<Row>("allocations", "in it", [](const Row& row) { return row.element.allocations; }),
      number_field<Row>("allocated_bytes", "in it", [](const Row& row) { return row.element.allocated_bytes; }),
      number_field<Row>("mapped_bytes", "live mappings at its end",
                        [](const Row& row) { return row.element.mapped_bytes; }),
      {{"rss_bytes", "INTEGER", "most resident memory in a sample; NULL: there is none in it"},
       [](const Row& row, const Result& result) {
         if (row.element.rss_bytes != 0) result.number(row.element.rss_bytes);
       }},
      {{"idle", "INTEGER", "1: the program had no event"},
       [](const Row& row, const Result& result) { result.boolean(row.element.idle); }},
  };
  return std::make_unique<IndexedTable<Row>>(
      recordings, typename IndexedTable<Row>::Spec{
                      .name = "timeline",
                      .help = "Live memory over time, in at most 1,024 equal parts of it",
                      .fields = std::move(fields),
                      .rows = 1000,
                      .count = [](Recording& recording) { return recording.profile().timeline.buckets.size(); },
                      .row =
                          [](Recording& recording, std::size_t i) {
                            return Row{recording, recording.profile(), recording.profile().timeline.buckets[i],
                                       static_cast<std::uint32_t>(i)};
                          }});
}

std::unique_ptr<query::Table> make_marks(Recordings& recordings) {
  using Row = ElementRow<model::Timeline::Mark>;
  std::vector<Field<Row>> fields = {
      process_field<Row>(),
      id_field<Row>("mark_id", "id of the mark in these tables"),
      number_field<Row>("time_ns", "when it was set", [](const Row& row) { return row.element.time_ns; }),
      text_field<Row>("kind", "mark, paused or resumed",
                      [](const Row& row) -> std::string {
                        switch (row.element.kind) {
                          case model::Timeline::Mark::Kind::kUser: return "mark";
                          case model::Timeline::Mark::Kind::kPaused: return "paused";
                          case model::Timeline::Mark::Kind::kResumed: return "resumed";
                        }
                        return {};
                      }),
      text_field<Row>("text", "of a mark", [](const Row& row) { return row.element.text; }),
  };
  return std::make_unique<IndexedTable<Row>>(
      recordings, typename IndexedTable<Row>::Spec{
                      .name = "marks",
                      .help = "One row for each mark, and for each time at which recording was paused or resumed",
                      .fields = std::move(fields),
                      .rows = 20,
                      .count = [](Recording& recording) { return recording.profile().timeline.marks.size(); },
                      .row =
                          [](Recording& recording, std::size_t i) {
                            return Row{recording, recording.profile(), recording.profile().timeline.marks[i],
                                       static_cast<std::uint32_t>(i)};
                          },
                      .key = 1,
                      .find = [](Recording& recording, std::uint32_t index) -> std::optional<std::size_t> {
                        if (index >= recording.profile().timeline.marks.size()) return std::nullopt;
                        return index;
                      }});
}

}  // namespace

void add_process_tables(Recordings& recordings, Tables& tables) {
  tables.push_back(make_processes(recordings));
  tables.push_back(make_labels(recordings));
  tables.push_back(make_threads(recordings));
  tables.push_back(make_modules(recordings));
  tables.push_back(make_timeline(recordings));
  tables.push_back(make_marks(recordings));
}

}  // namespace heapprof::cli
