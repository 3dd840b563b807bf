// Checks across options, after all of them were read.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/options/trace_options.h"

namespace heapprof::cli {

/// Whether `path` ends in `ending`, such as ".json", after at least one character of a name.
bool ends_in(const std::string& path, const std::string& ending);

/// Without --format (`given`), the extension of the output's name decides: a word of `formats` after a dot. `more`
/// are further extensions, with their dots.
template <typename Format>
void take_format_from_name(const CLI::Option* given, const std::string& output, const WordsFor<Format>& formats,
                           Format& format, const WordsFor<Format>& more = {}) {
  if (was_given(given)) return;
  for (const auto& [word, value] : formats)
    if (ends_in(output, "." + word)) format = value;
  for (const auto& [ending, value] : more)
    if (ends_in(output, ending)) format = value;
}

/// After the arguments were read: several recordings, or a directory, are in TraceOptions::traces, and one file in
/// `trace`. Refuses a directory for a command that answers for one recording.
void take_traces(TraceOptions& options, const std::string& command);

/// Whether `path` is a directory.
bool is_directory(const std::string& path);

/// Refuses times of several recordings that they do not have in common, and --kind.
void refuse_for_several(const TraceOptions& options, bool given, const std::string& option,
                        const std::string& instead);

/// Refuses to write `what` ("an SVG picture") to a terminal; `example` is a file name for the message.
void refuse_terminal(const std::string& output, const std::string& what, const std::string& example);

/// Refuses a selection of blocks for `option`: what the others keep would count as kept by the selected ones alone.
/// A moment (--to) is no such selection.
void refuse_selected_blocks(const TraceOptions& options, const std::string& option);

/// Refuses --kind mmap and all for a command that analyzes single blocks.
void refuse_mappings(const TraceOptions& options, const std::string& command);

}  // namespace heapprof::cli
