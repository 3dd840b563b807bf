#include "analyzer/cli/options/command_help.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace heapprof::cli {
namespace {

/// "TEXT:heap|mmap|all" says that three words are allowed; so does "TRACE pause|resume|mark TEXT", behind a file.
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t bar = type.find('|');
  if (bar == std::string::npos) return {};
  const std::size_t before = type.find_last_of(": ", bar);
  const std::string list = before == std::string::npos ? type : type.substr(before + 1);
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find('|', at), list.size());
    words.push_back(list.substr(at, std::min(list.find(' ', at), end) - at));
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

/// What the value of an option is, by the option's long name; types that say so themselves are not listed.
const std::pair<const char*, const char*> kValues[] = {
    {"--sysroot", "FOLDER"},
    {"--debug-dir", "FOLDER"},
    {"--directory", "FOLDER"},
    {"--from", "TIME"},
    {"--to", "TIME"},
    {"--live-at", "TIME"},
    {"--min-lifetime", "TIME"},
    {"--max-lifetime", "TIME"},
    {"--within", "TIME"},
    {"--wait", "SECONDS"},
    {"--thread", "THREAD"},
    {"--module", "PATTERN"},
    {"--function", "REGEX"},
    {"--not-function", "REGEX"},
    {"--pid", "PID"},
    {"--tolerance", "PERCENT"},
    {"--max-leaked-blocks", "N"},
    {"--max-allocations", "N"},
    {"--max-temporary", "N"},
};

void describe(const CLI::App& command, const std::string& name, CommandHelp& help) {
  help.name = name;
  help.summary = command.get_description();
  help.footer = command.get_footer();
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> choices = choices_of(option->get_type_name());
    launch::OptionHelp one;
    one.names = option_names(*option);
    if (one.names.empty()) {
      if (!help.operands.empty()) help.operands += ' ';
      const std::string operand = operand_name(*option);
      const bool optional = !option->get_required() && operand.find(' ') == std::string::npos;
      help.operands += optional ? "[" + operand + "]" : operand;
      if (choices.empty() || help.operands.find(' ') != std::string::npos) help.takes_file = true;
      if (!choices.empty()) help.words = choices;
      continue;
    }
    one.help = option_help(*option);
    one.value = value_name(*option);
    if (!one.value.empty()) {
      one.choices = choices;
      one.file = names_file(one.names.back());
    }
    help.options.push_back(std::move(one));
  }
}

/// Where pages are asked for, by their own names or by their commands'.
void offer_pages(CommandHelp& manual, const std::vector<CommandHelp>& commands) {
  manual.takes_file = false;
  manual.words = {"heapprof"};
  for (const CommandHelp& command : commands) {
    manual.words.push_back(page_name(command.name));
    if (command.name.find(' ') == std::string::npos) manual.words.push_back(command.name);
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
                "HEAPPROF_MAX_DEPTH.";
  return help;
}

}  // namespace

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& letter : option.get_snames()) names.push_back("-" + letter);
  for (const std::string& word : option.get_lnames()) names.push_back("--" + word);
  return names;
}

std::string value_name(const CLI::Option& option) {
  const std::vector<std::string> names = option_names(option);
  if (names.empty() || option.get_items_expected_max() == 0) return {};
  const std::string type = option.get_type_name();
  if (!choices_of(type).empty()) return type.substr(type.rfind(':') + 1);
  for (const auto& [name, value] : kValues)
    if (names.back() == name) return value;
  if (names_file(names.back())) return "FILE";
  if (type.find("SIZE") != std::string::npos) return "SIZE";
  return type.find("INT") != std::string::npos ? "N" : "VALUE";
}

std::string operand_name(const CLI::Option& option) {
  // Operands of several words name them in their type.
  const std::string type = option.get_type_name();
  return type.find(' ') != std::string::npos ? type : option.get_name(true);
}

std::string option_help(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0 || option.get_default_str().empty()) return option.get_description();
  return option.get_description() + " (default " + option.get_default_str() + ")";
}

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
    if (command->get_name() == "control") result.back().instead_of_file = "--pid";
  }
  for (CommandHelp& command : result) {
    if (command.name == "manual") offer_pages(command, result);
    if (command.name != "help") continue;
    command.takes_file = false;
    for (const auto& [word, summary] : first_words(app)) command.words.push_back(word);
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
