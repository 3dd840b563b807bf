// Declares the commands under "See it in a browser".
#include <cstdint>
#include <memory>
#include <string>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/options/option_values.h"

namespace heapprof::cli {
namespace {

constexpr const char* kBrowse = "See it in a browser";

void add_answer_options(CLI::App& command, AnswerOptions& options) {
  add_source_paths(command, options.source_paths);
  add_symbol_options(command, options.symbols);
  add_suppression_options(command, options.suppressions);
  add_helper_options(command, options.call_sites);
  add_own(command, options.call_sites);
  add_full_names(command, options.call_sites);
}

/// Which project file the commands are to use. choose() refuses one that is wrong.
void take_project_file_choice(const CLI::App& command, AnswerOptions& options) {
  const CLI::Option* const config = command.get_option("--config");
  if (was_given(config)) options.project_file = config->results().back();
  options.use_project_file = !was_given(command.get_option("--no-config"));
}

}  // namespace

void declare_serve(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App& command = add_command(app, kBrowse, "serve", "Show recordings in a browser, also while they are written");
  add_list(command, "TRACE", options->traces, "TRACE",
           "Serve these traces, and all traces in these directories; by default, the newest recording (*.heapprof, "
           "*.hprof) in the current directory")
      ->allow_extra_args(true);
  add_value(command, "--port", "N", "Listen on port N; by default, or if N is 0, on any that is free",
            [options](const std::string& text) {
              std::uint64_t port = 0;
              if (!read_whole_number(text, port, 65535))
                refuse_value(text, "--port", "a whole number from 0 to 65535");
              options->port = static_cast<std::uint16_t>(port);
            });
  add_text(command, "--listen", options->address, "ADDRESS",
           "Listen on this IP address; any other than 127.0.0.1 and ::1 can be reached from the network, without "
           "encryption")
      ->default_str(options->address);
  add_switch(command, "!--no-open", options->open, "Open no browser");
  add_answer_options(command, options->answers);
  command.footer(
      "The first line of standard output is the address of the page, with a token without which nothing is answered. "
      "Over ssh, a line on standard error has the command that makes the address reachable. Ctrl-C ends the server.");
  choose(command, chosen, options, [&command](ServeOptions& read) {
    take_project_file_choice(command, read.answers);
    if (!read.traces.empty()) return;
    const NewestTrace newest = find_newest_trace();
    if (newest.path.empty())
      refuse(
          "missing argument TRACE: there is no recording (*.heapprof, *.hprof) in this directory; record a program "
          "with 'heapprof record -- PROGRAM'");
    read.traces = {newest.path};
  });
}

void declare_html(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<HtmlOptions>();
  CLI::App& command = add_command(app, kBrowse, "html", "Write the page of 'serve' into one file, for any browser");
  add_optional_trace(command, options->trace.trace, "Show this trace");
  add_output(command, options->trace.output, "Write the page to FILE; - is standard output");
  add_size(command, "--max-size", "Leave out answers until the file has at most SIZE bytes (default 5M)",
           [options](std::uint64_t bytes) { options->max_bytes = bytes; });
  add_switch(command, "--sources", options->sources, "Include the text of the source files that have costs");
  add_switch(command, "--command-line", options->command_line,
             "Include the arguments of the program, which may contain secrets");
  add_answer_options(command, options->answers);
  command.footer(
      "The file has the answers of all views about the whole recording. About ten ranges of it, the peak and the "
      "first ten marks, it has those of tables, trees and flame graphs. Messages and the page list what was left out "
      "for the size. 'heapprof serve' answers everything else.");
  choose(command, chosen, options,
         [&command](HtmlOptions& read) { take_project_file_choice(command, read.answers); });
}

}  // namespace heapprof::cli
