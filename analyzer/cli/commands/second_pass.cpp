#include "analyzer/cli/commands/second_pass.h"

#include <CLI/CLI.hpp>

namespace heapprof::cli {

int run_on_blocks(const TraceOptions& options, const std::function<void(const replay::Analysis&)>& print) {
  if (options.selection.kind != model::Kind::kHeap)
    throw CLI::ValidationError("--kind", "this command reads heap blocks; use --kind heap");
  return run_on_trace(options, print);
}

}  // namespace heapprof::cli
