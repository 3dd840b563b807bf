#include "analyzer/cli/commands/question.h"

#include <CLI/CLI.hpp>

namespace heapprof::cli {

int ask_about_blocks(const TraceOptions& options, const std::function<void(const replay::Analysis&)>& print) {
  if (options.selection.kind != model::Kind::kHeap)
    throw CLI::ValidationError("--kind", "this is a question about blocks: --kind heap only");
  return run_on_trace(options, print);
}

}  // namespace heapprof::cli
