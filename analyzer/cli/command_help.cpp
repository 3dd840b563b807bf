#include "analyzer/cli/command_help.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace heapprof::cli {
namespace {

/// "TEXT:heap|mmap|all" says that three words are allowed.
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t colon = type.rfind(':');
  const std::string list = colon == std::string::npos ? type : type.substr(colon + 1);
  if (list.find('|') == std::string::npos) return {};
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find('|', at), list.size());
    words.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

/// Options whose value is a file or a folder.
bool names_file(const std::string& option) {
  static const std::vector<std::string> kFiles = {"--output", "--suppressions", "--sysroot", "--debug-dir", "--junit",
                                                  "--baseline", "--directory"};
  return std::find(kFiles.begin(), kFiles.end(), option) != kFiles.end();
}

std::string value_name(const std::string& option, const std::vector<std::string>& choices) {
  if (!choices.empty()) {
    std::string list;
    for (const std::string& choice : choices) list += (list.empty() ? "" : "|") + choice;
    return list;
  }
  if (option == "--sysroot" || option == "--debug-dir" || option == "--directory") return "FOLDER";
  if (names_file(option)) return "FILE";
  return "VALUE";
}

void describe(const CLI::App& command, const std::string& name, CommandHelp& help) {
  help.name = name;
  help.summary = command.get_description();
  help.footer = command.get_footer();
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> choices = choices_of(option->get_type_name());
    if (option->get_lnames().size() + option->get_snames().size() == 0) {
      // The words of an operand that is no file stand in its type or its help.
      if (!help.operands.empty()) help.operands += ' ';
      const std::string type = option->get_type_name();
      help.operands += choices.empty() && type.find(' ') != std::string::npos ? type : option->get_name(true);
      if (choices.empty()) help.takes_file = true;
      else help.words = choices;
      continue;
    }
    launch::OptionHelp one;
    for (const std::string& letter : option->get_snames()) one.names.push_back("-" + letter);
    for (const std::string& word : option->get_lnames()) one.names.push_back("--" + word);
    if (one.names.empty()) continue;
    const std::string& longest = one.names.back();
    one.help = option->get_description();
    if (option->get_items_expected_max() > 0) {
      one.choices = choices;
      one.file = names_file(longest);
      one.value = value_name(longest, choices);
      if (const std::string& standard = option->get_default_str(); !standard.empty()) one.help += " (default " + standard + ")";
    }
    help.options.push_back(std::move(one));
  }
}

CommandHelp describe_record(const CLI::App& command) {
  CommandHelp help;
  help.name = "record";
  help.summary = command.get_description();
  help.operands = "[--] PROGRAM [ARGUMENT...]";
  help.runs_program = true;
  help.options = launch::described_options();
  for (launch::OptionHelp& option : help.options) std::replace(option.help.begin(), option.help.end(), '\n', ' ');
  help.footer = "Options end at PROGRAM. Each of those with a value is also an environment variable: --max-depth is "
                "HEAPPROF_MAX_DEPTH. The exit status is the program's; 128 + n when signal n ended it.";
  return help;
}

}  // namespace

std::vector<CommandHelp> describe_commands(const CLI::App& app) {
  std::vector<CommandHelp> result;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == "record") {
      result.push_back(describe_record(*command));
      continue;
    }
    const auto inner = command->get_subcommands([](const CLI::App*) { return true; });
    for (const CLI::App* one : inner) {
      describe(*one, command->get_name() + " " + one->get_name(), result.emplace_back());
      if (result.back().footer.empty()) result.back().footer = command->get_footer();
    }
    if (inner.empty()) describe(*command, command->get_name(), result.emplace_back());
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> first_words(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    result.emplace_back(command->get_name(), command->get_description());
  return result;
}

}  // namespace heapprof::cli
