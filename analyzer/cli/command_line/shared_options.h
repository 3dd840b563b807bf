// Options that several commands declare: one function each, so that an option has one name, one grammar, one help and
// one message everywhere. Only the files that declare options include this header, since it includes the parser.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/base/labels.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/ranking.h"

namespace heapprof::cli {

/// Ends the parsing: heapprof prints `message` as it is and exits with status 2.
[[noreturn]] void refuse(const std::string& message);

/// "invalid value 'x' for --top; expected a whole number"
[[noreturn]] void refuse_value(const std::string& value, const std::string& option, const std::string& expected);

/// Whether the option was given on the command line.
bool was_given(const CLI::Option* option);

// Kinds of options. `names` is "-o,--output" for an option and "TRACE" for an argument; `type` names its value in the
// help: "TIME", or "FILE" and "DIRECTORY" for paths. The target must live until the parsing ends.

/// Calls `read` with the value that was given.
CLI::Option* add_value(CLI::App& command, const std::string& names, const std::string& type, const std::string& help,
                       std::function<void(const std::string&)> read);
CLI::Option* add_text(CLI::App& command, const std::string& names, std::string& value, const std::string& type,
                      const std::string& help);
/// An option that may be repeated; each takes one value.
CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                      const std::string& type, const std::string& help);
/// A whole number; the default is what `value` is.
CLI::Option* add_number(CLI::App& command, const std::string& names, std::size_t& value, const std::string& help);
/// A size in bytes; without a default.
CLI::Option* add_size(CLI::App& command, const std::string& names, const std::string& help,
                      std::function<void(std::uint64_t)> set);
/// One of `words`, whose position `set` gets. The default is words[chosen].
CLI::Option* add_choice(CLI::App& command, const std::string& names, const std::vector<std::string>& words,
                        std::size_t chosen, const std::string& help, std::function<void(std::size_t)> set);
/// An option without value that sets `value`; "!--no-index" clears it.
CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& value, const std::string& help);

template <typename Value>
CLI::Option* add_word(CLI::App& command, const std::string& names, Value& value, const WordsFor<Value>& words,
                      const std::string& help) {
  std::vector<std::string> texts;
  std::vector<Value> values;
  std::size_t chosen = 0;
  for (const auto& [text, one] : words) {
    if (one == value) chosen = texts.size();
    texts.push_back(text);
    values.push_back(one);
  }
  return add_choice(command, names, texts, chosen, help,
                    [&value, values](std::size_t position) { value = values[position]; });
}

// The shared options themselves.

/// TRACE. When it is left out, the newest recording in the current directory is read, and a message on standard error
/// names it. An option whose value is a recording is then refused: that value was probably meant as TRACE.
void add_optional_trace(CLI::App& command, std::string& trace, const std::string& help);

/// Which options a command has besides TRACE, -o, the selection and the symbols.
struct TraceCommand {
  bool json = true;
  bool output_required = false;
  bool json_by_name = true;   ///< -o FILE.json is --json; false: take_format_from_name() decides
  bool selection = true;      ///< false: of the selection only --no-index
  bool sole_argument = true;  ///< false: another argument follows, so TRACE is required
  bool several = false;  ///< the command takes several TRACE and directories; with another argument, one directory
  /// With `several`: they are taken only to be refused with a word on what to use instead (refuse_for_several()).
  bool refuses_several = false;
  bool output = true;          ///< false: there is no -o
  bool declares_trace = true;  ///< false: the command declares TRACE itself
};

/// TRACE, -o, --json, the selection and the symbols.
void add_trace_options(CLI::App& command, TraceOptions& options, const TraceCommand& has = {});
void add_output(CLI::App& command, std::string& output, const std::string& help);
void add_symbol_options(CLI::App& command, symbols::Options& options);
void add_suppression_options(CLI::App& command, SuppressionOptions& options);
/// --full-names, which excludes --short-names if the command has it.
void add_full_names(CLI::App& command, CallSiteOptions& options,
                    const std::string& help = "Print names with parameters and template arguments, however long");

/// --helper, --no-helpers, --own, --only-own and --full-names.
void add_call_site_options(CLI::App& command, CallSiteOptions& options);
/// Of these, --helper and --no-helpers.
void add_helper_options(CLI::App& command, CallSiteOptions& options);
/// --own, with --config and --no-config.
void add_own(CLI::App& command, CallSiteOptions& options);
/// The same and --only-own.
void add_own_code_options(CLI::App& command, CallSiteOptions& options);
/// Takes what the project file says and the command line does not, as far as the command has these options (null: it
/// has not). Refuses a file that is wrong.
void take_project_file(const CLI::App& command, CallSiteOptions* call_sites, SuppressionOptions* suppressions);
/// --label: labels of a recording (repeatable).
CLI::Option* add_labels(CLI::App& command, Labels& labels, const std::string& help);
/// --top: how many of `things` ("stacks") are printed.
void add_top(CLI::App& command, std::size_t& top, const std::string& things);
/// --stacks: how many stacks are printed below a table of call sites.
CLI::Option* add_stacks(CLI::App& command, std::size_t& stacks);
/// --frames: how many frames of each stack are printed.
void add_frames(CLI::App& command, std::size_t& frames);
/// --shared-frames, of commands whose JSON can have thousands of stacks.
void add_shared_frames(CLI::App& command, bool& shared);
/// --cost.
CLI::Option* add_cost(CLI::App& command, Cost& cost, const std::string& help);
/// --format.
template <typename Format>
CLI::Option* add_format(CLI::App& command, Format& format, const WordsFor<Format>& formats, const std::string& help) {
  return add_word(command, "--format", format, formats, help + "; without it, the ending of the name of -o decides");
}

// Checks across options, after all of them were read.

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
