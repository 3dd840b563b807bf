// heapprof index: snapshots in a file beside a trace. Commands with a slice of time start reading at a snapshot.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/trace_command.h"
#include "analyzer/render/units.h"
#include "analyzer/replay/index/index.h"

namespace heapprof::cli {
namespace {

struct IndexOptions {
  std::string trace;
  std::string output;
};

int make_index(const IndexOptions& options) {
  const trace::TraceFile file(options.trace);
  if (file.recorder() == trace::RecorderState::kRecording)
    throw trace::TraceError(options.trace + ": the program is still running; index the trace when it has ended");
  const std::string path = options.output.empty() ? replay::index_beside(file) : options.output;
  refuse_recording_as_output(path, options.trace);
  trace::AtomicFile out(path);
  replay::write_index_header(out, file);
  ProgressLine progress("Indexing " + options.trace);
  replay::add_index(out, file, replay::kSnapshotInterval, [&](const trace::Batch& batch) {
    progress.show(static_cast<double>(batch.frame_bytes_read) / static_cast<double>(file.frame_bytes()),
                  batch.records);
  });
  progress.show(1, 0);
  out.finish();
  std::printf("%s: %s for a trace of %s\n", path.c_str(), render::human_bytes(out.bytes()).c_str(),
              render::human_bytes(file.bytes()).c_str());
  return 0;
}

}  // namespace

void add_index(CLI::App& app, int& status) {
  const auto options = std::make_shared<IndexOptions>();
  CLI::App* const command = app.add_subcommand("index", "Write an index beside a trace, for quick slices of time");
  add_trace_argument(*command, options->trace, "Trace to index; its program must have ended");
  command->add_option("-o,--output", options->output,
                      "Where the index goes; only TRACE.idx, the default, is found again");
  command->footer(
      "Without it, the first question about a slice of a large trace leaves an index in the user's cache folder "
      "($XDG_CACHE_HOME/heapprof/index or ~/.cache/heapprof/index). One beside the trace can be copied with it.");
  command->callback([options, &status] {
    if (options->output == "-")
      throw CLI::ValidationError("--output", "an index is a file beside its trace, and not for standard output");
    status = guarded(options->trace, [&] { return make_index(*options); });
  });
}

}  // namespace heapprof::cli
