#include "analyzer/cli/command_line/option_checks.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/options/selection.h"

namespace heapprof::cli {

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

void take_traces(TraceOptions& options, const std::string& command) {
  if (options.takes_several && is_directory(options.trace)) options.traces = {options.trace};
  if (options.traces.size() == 1 && !is_directory(options.traces.front())) {
    options.trace = options.traces.front();
    options.traces.clear();
  }
  if (!options.traces.empty())
    options.trace =
        options.traces.size() == 1 ? options.traces.front() : std::to_string(options.traces.size()) + " recordings";
  else if (is_directory(options.trace))
    refuse(options.trace + ": is a directory, and heapprof " + command +
           " answers for one recording; 'heapprof report " + options.trace + "' lists those in it");
}

void refuse_for_several(const TraceOptions& options, bool given, const std::string& option,
                        const std::string& instead) {
  if (given && !options.traces.empty())
    refuse(option + " is for one recording; name one of " + options.trace +
           (instead.empty() ? std::string() : ", or use " + instead));
}

bool ends_in(const std::string& path, const std::string& ending) {
  return path.ends_with(ending) && path.size() > ending.size() && path[path.size() - ending.size() - 1] != '/';
}

void refuse_terminal(const std::string& output, const std::string& what, const std::string& example) {
  if (output != "-" || ::isatty(STDOUT_FILENO) == 0) return;
  refuse("standard output is a terminal, which cannot show " + what + "; write it to a file: -o " + example);
}

void refuse_selected_blocks(const TraceOptions& options, const std::string& option) {
  const SelectionTexts& texts = options.texts;
  const replay::Selection& selection = options.selection;
  if (texts.selects_stacks() || texts.selects_threads() || !texts.from.empty() || !texts.live_at.empty() ||
      !texts.survivors.empty() || !texts.min_lifetime.empty() || !texts.max_lifetime.empty() ||
      selection.freed != replay::Freed::kAny || !selection.all_sizes() || selection.kind != model::Kind::kHeap)
    refuse(option + " is about all blocks together; of the selection, give --to only" +
           (texts.live_at.empty() ? "" : ": --to " + texts.live_at));
}

void refuse_mappings(const TraceOptions& options, const std::string& command) {
  if (options.selection.kind == model::Kind::kHeap) return;
  refuse_value(options.selection.kind == model::Kind::kMmap ? "mmap" : "all", "--kind",
               "heap, since '" + command + "' analyzes single blocks");
}

}  // namespace heapprof::cli
