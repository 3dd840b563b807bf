// What a file holds that is made to be handed on: `bundle` and `html` print it.
#pragma once

#include <string>
#include <vector>

namespace heapprof::cli {

/// What was asked for, and what the recording has.
struct HeldContent {
  bool sources = false;         ///< --sources
  bool command_line = false;    ///< --command-line
  bool omitted_before = false;  ///< model::Recording::command_line_omitted
};

/// The ends of sentences that begin with "it holds".
inline std::vector<std::string> held_words(const HeldContent& content) {
  const char* arguments = "no command-line arguments (--command-line includes them)";
  if (content.command_line)
    arguments = content.omitted_before ? "no command-line arguments (the recording has none: they were left out)"
                                       : "the arguments of the program";
  return {content.sources ? "the text of source files" : "no source text (--sources includes it)", arguments};
}

}  // namespace heapprof::cli
