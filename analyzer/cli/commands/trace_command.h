// What all commands that read a trace have in common: their options, opening the trace with a progress line,
// where the output goes, and what the exit status says.
//
//   0  all well
//   1  the trace could not be read, or lacks something (what it has was printed), or the output failed
//   2  wrong command line
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analyzer/cli/options/selection.h"
#include "analyzer/cli/text/progress_line.h"
#include "analyzer/cli/text/stack_names.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/replay/analysis/analysis.h"

namespace CLI {
class App;
class Option;
}

namespace heapprof::cli {

struct TraceOptions {
  std::string trace;
  std::string output = "-";
  bool json = false;
  replay::Selection selection;
  symbols::Options symbols;
  bool use_index = true;
  bool output_is_recording = false;  ///< what is written is a recording, too, and may replace another one
  SelectionTexts texts;              ///< taken over into a copy of `selection` when the trace is opened
};

/// Which options a command has besides TRACE, -o and the selection.
struct TraceCommand {
  bool json = true;
  bool output_required = false;
  bool json_by_name = true;   ///< -o FILE.json alone is --json, too; false: take_format_from_name() sees to it
  bool sole_argument = true;  ///< false: another argument follows, so TRACE cannot be left out
};

/// Adds TRACE, which may be left out: then it is the newest recording in the current folder, which is named on
/// standard error. A recording as the value of an option is refused then.
void add_trace_argument(CLI::App& command, std::string& trace, const std::string& help);

/// Whether `path` ends in `ending`, such as ".json", behind at least one character of a name.
bool ends_in(const std::string& path, const std::string& ending);

/// Whether the option stands on the command line.
bool was_given(const CLI::Option* option);

/// Without a --format (`given`) the name of the output decides: a word of `formats` that it ends in, behind a dot.
/// `more` are further endings, with their dots.
template <typename Value>
void take_format_from_name(const CLI::Option* given, const std::string& output,
                           const std::vector<std::pair<std::string, Value>>& formats, Value& format,
                           const std::vector<std::pair<std::string, Value>>& more = {}) {
  if (was_given(given)) return;
  for (const auto& [word, value] : formats)
    if (ends_in(output, "." + word)) format = value;
  for (const auto& [ending, value] : more)
    if (ends_in(output, ending)) format = value;
}

/// Throws a parse error when `output` is a terminal. `what` is what would be written ("an SVG picture"), `example` a
/// file that it could go to.
void refuse_terminal(const std::string& output, const std::string& what, const std::string& example);

/// Of commands whose JSON may have thousands of stacks.
void add_shared_frames(CLI::App& command, bool& shared);

/// Adds the options to `command`, which keep their values in `options`.
void add_trace_options(CLI::App& command, TraceOptions& options, const TraceCommand& has = {});

/// Those of them that say where names come from. `options` must live as long as `command`.
void add_symbol_options(CLI::App& command, symbols::Options& options);

/// Opens and replays the trace and calls `print` with it; returns the exit status. Errors and what the trace
/// lacks are told on standard error. `print` may throw trace::TraceError or OutputError.
int run_on_trace(const TraceOptions& options, const std::function<void(const replay::Analysis&)>& print);

/// Calls `work` and returns its exit status; errors that reading a trace or writing a file may throw are told on
/// standard error and give 1. `trace` is the name they are told with where they have none.
int guarded(const std::string& trace, const std::function<int()>& work);

/// A line on standard error, cleaned for terminals.
void complain(const std::string& text);

/// Whether both paths lead to one file.
bool is_same_file(const std::string& a, const std::string& b);

/// Throws OutputError when `path` is `trace` itself, which an output must not replace.
void refuse_trace_as_output(const std::string& path, const std::string& trace);

/// The same for any recording: for outputs that are none themselves.
void refuse_recording_as_output(const std::string& path, const std::string& trace);

}  // namespace heapprof::cli
