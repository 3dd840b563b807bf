// What the declarations of all commands (command_declarations.h) have in common: the heading in the help, and what
// happens when the parser has read the options of the command that the user chose.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "analyzer/cli/command_line/option_checks.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {

/// The options of the command that the user chose.
using Chosen = std::optional<CommandOptions>;

/// `group` is the heading of the command in --help. Under it, commands are listed in the order of their declaration.
CLI::App& add_command(CLI::App& app, const char* group, const char* name, const char* summary);

/// "report", "export pprof"
std::string full_name_of(const CLI::App& command);

/// Makes the parser call `check`, which refuses contradictory options, add the settings of the project file, and then
/// copy `options` to `chosen`.
template <typename Options, typename Check>
void choose(CLI::App& command, Chosen& chosen, const std::shared_ptr<Options>& options, Check&& check) {
  command.callback([options, &command, &chosen, check = std::forward<Check>(check)] {
    if constexpr (requires { options->trace.traces; }) take_traces(options->trace, full_name_of(command));
    check(*options);
    CallSiteOptions* call_sites = nullptr;
    SuppressionOptions* suppressions = nullptr;
    if constexpr (requires { options->call_sites; }) call_sites = &options->call_sites;
    if constexpr (requires { options->suppressions; }) suppressions = &options->suppressions;
    take_project_file(command, call_sites, suppressions);
    chosen = *options;
  });
}
template <typename Options>
void choose(CLI::App& command, Chosen& chosen, const std::shared_ptr<Options>& options) {
  choose(command, chosen, options, [](Options&) {});
}

/// choose() for a command that analyzes single blocks, and therefore no mappings.
template <typename Options>
void choose_without_mappings(CLI::App& command, Chosen& chosen, const std::shared_ptr<Options>& options) {
  choose(command, chosen, options, [name = command.get_name()](Options& read) { refuse_mappings(read.trace, name); });
}

}  // namespace heapprof::cli
