// Options that several commands declare: one function each, so that an option has one name, one grammar, one help and
// one message everywhere. Only the files that declare options include this header, since it includes the parser.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/base/labels.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/options/trace_options.h"
#include "analyzer/cli/text/findings.h"
#include "analyzer/cli/text/ranking.h"

namespace heapprof::cli {

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
/// --source-path of the commands that read or pack source files.
void add_source_paths(CLI::App& command, std::vector<std::string>& paths);
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

}  // namespace heapprof::cli
