#include "analyzer/cli/commands/question.h"

#include <CLI/CLI.hpp>

#include "analyzer/cli/text/report_text.h"

namespace heapprof::cli {

int ask_about_blocks(const TraceOptions& options, const std::function<void(const replay::Analysis&)>& print) {
  if (options.selection.kind != model::Kind::kHeap)
    throw CLI::ValidationError("--kind", "this is a question about blocks: --kind heap only");
  return run_on_trace(options, print);
}

std::string site_name(const Frame& frame) {
  return frame.module == nullptr ? "(no stack recorded)" : one_line(frame);
}

}  // namespace heapprof::cli
