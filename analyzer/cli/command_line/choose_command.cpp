#include "analyzer/cli/command_line/choose_command.h"

namespace heapprof::cli {

CLI::App& add_command(CLI::App& app, const char* group, const char* name, const char* summary) {
  CLI::App* const command = app.add_subcommand(name, summary);
  command->group(group);
  return *command;
}

std::string full_name_of(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  const bool is_nested = parent != nullptr && parent->get_parent() != nullptr;
  return (is_nested ? full_name_of(*parent) + " " : "") + command.get_name();
}

}  // namespace heapprof::cli
