// Declares every command to the parser: its options, its help, and the checks across its options.
#pragma once

#include <optional>
#include <string_view>

#include "analyzer/cli/options/command_options.h"

namespace CLI {
class App;
}

namespace heapprof::cli {

/// Adds the command `only` to `app`, or all commands if it is empty. Parsing puts the options of the command that the
/// user chose into `chosen`. Both must outlive the parsing. All commands take some 3 ms, one a tenth of it.
void declare_commands(CLI::App& app, std::optional<CommandOptions>& chosen, std::string_view only = {});

bool is_command(std::string_view name);

/// Adds the options of `heapprof record` to `command`. Parsing puts them into `options`, except PROGRAM.
void declare_record(CLI::App& command, RecordOptions& options);

}  // namespace heapprof::cli
