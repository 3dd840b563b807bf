// The layout of --help: what a command is for, how it is called, then its own options before those that most commands
// share, in lines as wide as the terminal.
#include <algorithm>

#include "analyzer/cli/help/help.h"
#include "analyzer/cli/text/text_style.h"
#include "analyzer/render/wrap.h"

namespace heapprof::cli {
namespace {

constexpr std::size_t kColumn = 30;         ///< where descriptions begin
constexpr std::size_t kMaxHelpWidth = 100;  ///< as wide as reports are

std::size_t width() {
  const std::size_t columns = terminal_columns("-");
  return columns == 0 ? kMaxHelpWidth : std::clamp<std::size_t>(columns, 60, kMaxHelpWidth);
}

/// "  -o, --output FILE           Write the output to FILE; ..."
std::string row(const std::string& left, const std::string& help) {
  std::string text = "  " + left;
  if (text.size() + 2 > kColumn) text += '\n' + std::string(kColumn, ' ');
  else text.append(kColumn - text.size(), ' ');
  bool first = true;
  for (const std::string& line : render::wrapped(help, width() - kColumn)) {
    if (!first) text += std::string(kColumn, ' ');
    text += line + '\n';
    first = false;
  }
  return text;
}

std::string paragraphs(const std::string& text) {
  std::string result;
  for (const std::string& line : render::wrapped(text, width())) result += line + '\n';
  return result;
}

std::string names_and_value(const OptionHelp& option) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + name;
  return option.value.empty() ? text : text + " " + option.value;
}

/// The headings of options, the shared ones last.
std::vector<std::string> groups_of(const std::vector<OptionHelp>& options) {
  std::vector<std::string> groups;
  for (const OptionHelp& option : options)
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != "Selection" && group != "Symbols"; });
  return groups;
}

}  // namespace

std::string help_text(const CommandHelp& command) {
  std::string text = paragraphs(command.summary + ".") + "\nUsage: heapprof " + command.name;
  if (command.subcommands.empty()) text += " [options]" + (command.usage.empty() ? "" : " " + command.usage) + "\n";
  else text += " FORMAT [options] ...\n";
  if (!command.arguments.empty()) {
    text += "\nArguments:\n";
    for (const OptionHelp& argument : command.arguments) {
      const bool names_itself = argument.value.find(' ') != std::string::npos;
      text += row(names_itself ? argument.value : argument.names.front(), argument.help);
    }
  }
  if (!command.subcommands.empty()) {
    text += "\nFormats:\n";
    for (const CommandHelp& one : command.subcommands)
      text += row(one.name.substr(one.name.rfind(' ') + 1), one.summary);
  }
  for (const std::string& group : groups_of(command.options)) {
    text += "\n" + group + ":\n";
    for (const OptionHelp& option : command.options)
      if (option.group == group) text += row(names_and_value(option), option.help);
  }
  if (!command.footer.empty()) text += "\n" + paragraphs(command.footer);
  if (command.runs_program) {
    text += "\nExit status:\n";
    for (const ExitStatus& one : exit_statuses(command)) text += row(one.status, one.meaning);
  }
  return text;
}

std::string help_overview(const std::vector<CommandHelp>& commands) {
  std::string text = std::string("heapprof: ") + kPurpose +
                     "\n\n"
                     "Usage: heapprof COMMAND [options] ...\n"
                     "       heapprof TRACE     the same as heapprof report TRACE\n";
  std::string group;
  for (const CommandHelp& command : commands) {
    if (command.group != group) text += "\n" + command.group + ":\n";
    group = command.group;
    text += row(command.name, command.summary);
  }
  text += "\nOptions:\n" + row("-h, --help", "Print this help; after a command, the help of that command") +
          row("-V, --version", "Print the version") +
          row("--recorder-path", "Print the path of the recorder, for LD_PRELOAD");
  return text;
}

}  // namespace heapprof::cli
