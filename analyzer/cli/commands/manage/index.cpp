// heapprof index: snapshots in a file beside a trace. Commands with a slice of time start reading at a snapshot.
#include <string>

#include "analyzer/base/atomic_file.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/export/sink.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/analysis/integrity.h"
#include "analyzer/replay/index/index.h"
#include "analyzer/replay/index/index_cache.h"

namespace heapprof::cli {
namespace {

int make_index(const IndexOptions& options) {
  const trace::TraceFile file(options.trace);
  if (file.recorder() == trace::RecorderState::kRecording)
    throw trace::TraceError(options.trace + ": the program is still running; index the trace when it has ended");
  const std::string path = options.output.empty() ? replay::index_beside(file) : options.output;
  refuse_recording_as_output(path, options.trace);
  AtomicFile out(path, exporter::Sink::kUserOnly);
  replay::write_index_header(out, file);
  ProgressLine progress("Indexing " + options.trace);
  const trace::TraceSummary summary =
      replay::add_index(out, file, replay::kIntervalRecords, [&](const trace::Batch& batch) {
        progress.show({.share = static_cast<double>(batch.frame_bytes_read) / static_cast<double>(file.frame_bytes()),
                       .records = batch.records});
      });
  progress.end();
  out.finish();
  if (path == replay::index_in_cache(file)) replay::remove_old_indexes();
  const int status = print_text(path + ": " + render::human_bytes(out.bytes()) + " for a trace of " +
                                render::human_bytes(file.bytes()) + "\n");
  const model::Integrity integrity = replay::integrity_of(file, summary);
  if (integrity.complete) return status;
  warn_of_losses(options.trace, integrity);
  return 1;
}

}  // namespace

int run_index(const IndexOptions& options) {
  return guarded(options.trace, [&] { return make_index(options); });
}

}  // namespace heapprof::cli
