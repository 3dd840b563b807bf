// The recordings that SQL asks, each read when a table first needs it.
//
//   for allocations and live blocks of a part of the time    an analysis of that part
//   for all other figures                                    Recording::costs(), the analysis of `report`
//
// A recording that is still written gets longer from one analysis to the next, so everything comes from costs() then.
//
// Ids are unique over all processes: an id is that of its process (from 1) less 1, times 2^32, plus an index. Of a
// single recording, ids are the indexes of `report --json`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/view_names.h"
#include "analyzer/replay/analysis/analysis.h"
#include "analyzer/views/rows.h"
#include "common/trace_format.h"

namespace heapprof::cli {

/// One of the recordings.
struct RecordedProcess {
  std::uint32_t id = 1;
  std::string trace;  ///< path
  FileHeader header{};
  std::string began;                  ///< "forked", "started", "executed", or "root"
  std::optional<std::uint32_t> from;  ///< id of the process that it comes from
  std::uint64_t start_ns = 0;         ///< since the first recording began
  bool grows = false;                 ///< it is still written
};

struct AnalysisRequest {
  std::function<void(TraceOptions&)> change{};  ///< of the options of the command line; may be empty
  replay::LeakVisitor visit_block{};
  replay::MappingVisitor visit_mapping{};
  replay::Progress progress{};  ///< empty: a progress line is shown
};

/// Opens an analysis and prints what its recording lacks. Throws what replay::Analysis does. May be called by several
/// threads at once.
using AnalysisOpener =
    std::function<std::unique_ptr<replay::Analysis>(const RecordedProcess&, const AnalysisRequest&)>;

/// Which parts of the recordings the tables of a query need.
struct NeededParts {
  bool timeline = false;
  bool threads = false;
  bool events = false;  ///< the recording will be read again
  bool live = false;    ///< live blocks or mappings
};

/// The stacks of a profile by name, as `report --by stack` and `--by site` print them.
struct NamedStacks {
  NamedStacks(const model::Profile& profile, const symbols::Options& symbols, const CallSiteOptions& options);

  StackNames names;
  Findings findings;
  ViewNames view;
  std::vector<findings::FrameRef> site_frames;  ///< by node
  std::vector<views::Row> sites;
  std::vector<std::uint32_t> site_of_node;     ///< position in `sites`; kNoIndex: none
  std::vector<std::uint32_t> stacks_of_sites;  ///< number of stacks, by position in `sites`

 private:
  /// Looks the names up before `findings` needs them.
  static StackNames resolved(const model::Profile& profile, const symbols::Options& symbols);
};

class Recordings;

/// Used by one thread, except process() and costs().
class Recording {
 public:
  Recording(Recordings& all, const RecordedProcess& process) : all_(all), process_(process) {}

  Recordings& all() const noexcept { return all_; }
  const RecordedProcess& process() const noexcept { return process_; }
  /// What the command line selects.
  const replay::Analysis& costs();
  const model::Profile& profile() { return costs().profile(); }
  /// The nodes with costs, ascending.
  const std::vector<std::uint32_t>& stacks();
  const NamedStacks& named();

  /// Of a recording that grows: what is live at its end.
  const std::vector<replay::LiveBlock>& live_blocks() { return costs(), live_blocks_; }
  const std::vector<replay::LiveMapping>& live_mappings() { return costs(), live_mappings_; }

  std::int64_t id_of(std::uint32_t index) const noexcept {
    return (static_cast<std::int64_t>(process_.id - 1) << 32) + index;
  }

 private:
  Recordings& all_;
  const RecordedProcess& process_;
  std::mutex mutex_;  // of costs_ while it is opened
  std::unique_ptr<replay::Analysis> costs_;
  std::vector<replay::LiveBlock> live_blocks_;
  std::vector<replay::LiveMapping> live_mappings_;
  std::optional<std::vector<std::uint32_t>> stacks_;
  std::unique_ptr<NamedStacks> named_;
};

class Recordings {
 public:
  /// `wait`: called now and then while a table waits for its rows; may throw.
  Recordings(std::vector<RecordedProcess> processes, const TraceOptions& options, const CallSiteOptions& call_sites,
             AnalysisOpener open, std::function<void()> wait);

  std::span<const RecordedProcess> processes() const noexcept { return processes_; }
  /// Keeps the last ones that were used, and those that grow. Precondition: there is a process with this id.
  std::shared_ptr<Recording> recording(std::uint32_t id);

  const TraceOptions& options() const noexcept { return options_; }
  const CallSiteOptions& call_sites() const noexcept { return call_sites_; }
  model::Kind kind() const noexcept { return options_.selection.kind; }
  /// Whether the command line selects a part of the time, or blocks by their lifetimes.
  bool selects_times() const noexcept;

  const NeededParts& needed() const noexcept { return needed_; }
  /// Call this before the first row is read.
  void need(const NeededParts& parts) noexcept { needed_ = parts; }

  std::unique_ptr<replay::Analysis> open(const RecordedProcess& process, const AnalysisRequest& request) const {
    return open_(process, request);
  }
  void wait() const { wait_(); }

  /// How far the thread that reads a trace has come, for the thread that waits.
  struct Progress {
    std::atomic<double> share = 1;
    std::atomic<std::uint64_t> events = 0;
  };
  Progress& progress() noexcept { return progress_; }

 private:
  static constexpr std::size_t kMaxOpen = 8;

  const std::vector<RecordedProcess> processes_;
  const TraceOptions options_;
  const CallSiteOptions call_sites_;
  const AnalysisOpener open_;
  const std::function<void()> wait_;
  NeededParts needed_;
  Progress progress_;
  std::vector<std::shared_ptr<Recording>> last_used_;  // the last one first
};

/// Recordings of which trace, header, start_ns and grows are set: with their ids and relations, each after the one
/// that it comes from, as `report` of a directory lists them.
std::vector<RecordedProcess> in_order_of_tree(std::vector<RecordedProcess> recordings);

}  // namespace heapprof::cli
