#include "analyzer/cli/help/help.h"

#include "analyzer/cli/text/write_output.h"

namespace heapprof::cli {
namespace {

const CommandHelp* find(const std::vector<CommandHelp>& commands, const std::string& name) {
  for (const CommandHelp& command : commands) {
    if (command.name == name) return &command;
    if (const CommandHelp* const found = find(command.subcommands, name)) return found;
  }
  return nullptr;
}

}  // namespace

int run_help(const HelpOptions& options) {
  const std::vector<CommandHelp> commands = describe_commands();
  const CommandHelp* const command = find(commands, options.command);
  return print_text(command == nullptr ? help_overview(commands) : help_text(*command));
}

std::vector<ExitStatus> exit_statuses(const CommandHelp& command) {
  if (command.runs_program)
    return {{"N", "The program exited with status N."},
            {"128 + N", "Signal N ended the program."},
            {"2", "The command line, an environment variable or the output is wrong; the program was not started."},
            {"125", "heapprof itself failed."},
            {"126",
             "The program cannot be executed, or cannot be recorded: it is static, setuid, or for another "
             "architecture."},
            {"127", "The program does not exist."}};
  std::vector<ExitStatus> statuses = {
      {"0", "Success."},
      {"1", command.reads_trace()
                ? "The trace could not be read, is incomplete, or lacks what was asked for (what could be read was "
                  "printed); or the output could not be written or sent."
                : "The command failed; a message gives the reason."},
      {"2", "The command line is wrong."}};
  if (command.name == "check") statuses.push_back({"3", "A limit of 'heapprof check' was exceeded."});
  if (command.name == "query") statuses.push_back({"130", "Ctrl-C ended the command."});
  return statuses;
}

std::vector<ExitStatus> common_exit_statuses() {
  CommandHelp any;
  any.name = "check";
  any.usage = "TRACE";
  return exit_statuses(any);
}

}  // namespace heapprof::cli
