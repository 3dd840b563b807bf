// The last lines of a text: commands that answer the next question, on the same selection.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/text/ranking.h"
#include "analyzer/cli/text/text_page.h"

namespace heapprof::cli {

/// The selecting options (--from to --kind) as words of a shell, each with a space before it; empty: all is selected.
std::string selection_words(const TraceOptions& options);

/// "--cost leaked"; empty for the default.
std::string cost_words(Cost cost);

class NextCommands {
 public:
  explicit NextCommands(const TraceOptions& options) : selection_(selection_words(options)) {}

  /// "LABEL: heapprof COMMAND TRACE ARGUMENT --from 2s". TRACE has no name: a copy of the recording, compacted or
  /// bundled, has the same text. `argument` is quoted for a shell; empty: none. `more` are words of a shell.
  NextCommands& add(const std::string& label, const std::string& command, const std::string& argument,
                    const std::string& more = {});
  /// The same with other names of recordings than TRACE: `words` are those after "heapprof", without the selection.
  NextCommands& add_words(const std::string& label, const std::string& words);
  /// Prints the commands after an empty line; nothing if there are none.
  void write(TextPage& page) const;

 private:
  std::string selection_;
  std::vector<std::pair<std::string, std::string>> commands_;  ///< with their labels
};

}  // namespace heapprof::cli
