#include "analyzer/cli/commands/export/query_recordings.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "analyzer/cli/commands/shared/peak_moment.h"
#include "analyzer/cli/commands/shared/recording_set.h"
#include "analyzer/cli/text/interpreter_frames.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/recording_text.h"
#include "analyzer/query/database.h"
#include "analyzer/symbols/module_symbols.h"
#include "analyzer/trace/recording_header.h"

namespace heapprof::cli {
namespace {

volatile std::sig_atomic_t interrupt_requested = 0;

void request_interrupt(int) { interrupt_requested = 1; }

void take_interrupts() {
  interrupt_requested = 0;
  struct sigaction action {};
  action.sa_handler = request_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one ends the process at once
  ::sigaction(SIGINT, &action, nullptr);
}

}  // namespace

namespace {

RecordedProcess recorded_process(const std::string& trace, std::uint64_t start_ns) {
  const trace::RecordingHeader read = trace::read_recording_header(trace);
  RecordedProcess process;
  process.trace = trace;
  process.header = read.header;
  process.start_ns = start_ns;
  process.grows = read.recorder == trace::RecorderState::kRecording;
  return process;
}

}  // namespace

QueryRecordings::QueryRecordings(const std::vector<std::string>& arguments, const TraceOptions& options,
                                 const CallSiteOptions& call_sites)
    : options_(options) {
  std::vector<RecordedProcess> processes;
  std::error_code ignored;
  if (arguments.size() == 1 && !std::filesystem::is_directory(arguments.front(), ignored)) {
    processes.push_back(recorded_process(arguments.front(), 0));
  } else {
    const RecordingSet set(arguments);
    for (const RecordingSet::Member& member : set.members())
      processes.push_back(recorded_process(member.path, member.start_ns));
    for (const std::string& note : set.notes()) print_message(note);
    if (set.unread() != 0) status_ = 1;
  }
  processes = in_order_of_tree(std::move(processes));
  several_ = processes.size() > 1;
  const SelectionTexts& texts = options.texts;
  if (several_ && (!texts.from.empty() || !texts.to.empty() || !texts.live_at.empty() || !texts.survivors.empty()))
    throw replay::SelectionError(
        "--from, --to, --live-at and --survivors are for a query of one recording; select times in the SQL");
  recordings_ = std::make_unique<Recordings>(
      std::move(processes), options, call_sites,
      [this](const RecordedProcess& process, const AnalysisRequest& request) { return open(process, request); },
      [this] {
        if (interrupt()) throw query::Interrupted();
      });
  take_interrupts();
}

QueryRecordings::~QueryRecordings() { ::signal(SIGINT, SIG_DFL); }

int QueryRecordings::status() {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool QueryRecordings::interrupt() {
  const Recordings::Progress& read = recordings_->progress();
  if (const double share = read.share; share < 1) {
    if (!progress_) progress_.emplace("Reading " + options_.trace);
    progress_->show({.share = share, .records = read.events});
  } else if (progress_) {
    progress_->end();
    progress_.reset();
  }
  return interrupt_requested != 0;
}

std::unique_ptr<replay::Analysis> QueryRecordings::open(const RecordedProcess& process,
                                                        const AnalysisRequest& request) {
  TraceOptions options = options_;
  options.trace = process.trace;
  options.one_of_several = several_;
  if (request.change) request.change(options);
  resolve_peak(options);
  resolve_peak(options, options.selection.live_at);
  replay::Selection selection = options.selection;
  fold_interpreter_frames(options.symbols, selection);
  std::shared_ptr<const std::vector<UnmatchedValue>> unmatched;
  try {
    unmatched = resolve_selection(options.texts, options.symbols, selection);
  } catch (const std::invalid_argument& error) {
    throw replay::SelectionError(error.what());
  }
  std::optional<ProgressLine> line;
  if (!request.progress) line.emplace("Reading " + options.trace);
  const replay::Progress progress = [&](const replay::Done& done) {
    if (interrupt_requested != 0) throw query::Interrupted();
    if (line) line->show(done);
    else request.progress(done);
  };
  auto analysis = std::make_unique<replay::Analysis>(
      options.trace, selection, progress, replay::IndexUse{.use = options.use_index, .keep = options.use_index},
      symbols::decode_shared_symbols, request.visit_block, request.visit_mapping);
  line.reset();
  report_once(process, options, *analysis, *unmatched);
  return analysis;
}

/// Of the first analysis of a recording. What it lacks is the same in all of them.
void QueryRecordings::report_once(const RecordedProcess& process, const TraceOptions& options,
                                  const replay::Analysis& analysis, const std::vector<UnmatchedValue>& unmatched) {
  const std::lock_guard lock(mutex_);
  if (!reported_.insert(process.id).second) return;
  for (const std::string& warning : analysis.warnings()) print_message(warning);
  if (!several_) {
    std::vector<UnmatchedValue> all = unmatched;
    std::ranges::move(unmatched_modules_and_threads(analysis.profile(), options.texts), std::back_inserter(all));
    for (const UnmatchedValue& value : all) print_message(options.trace + ": " + value.sentence);
  }
  const model::Integrity& integrity = analysis.profile().integrity;
  if (integrity.complete) return;
  status_ = 1;
  print_message(options.trace + ": " + losses_of(integrity) + "; the rest was read. 'heapprof info' prints details");
}

}  // namespace heapprof::cli
