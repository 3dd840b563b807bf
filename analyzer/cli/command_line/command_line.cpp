#include "analyzer/cli/command_line/command_line.h"

#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "analyzer/cli/command_line/command_help.h"
#include "analyzer/cli/command_line/declare_commands.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/options/spelling_suggestion.h"
#include "analyzer/cli/options/version.h"
#include "analyzer/cli/text/message.h"
#include "analyzer/cli/text/write_output.h"
#include "analyzer/launch/recorder_settings.h"

namespace heapprof::cli {
namespace {

constexpr int kWrongCommandLine = 2;
constexpr const char* kEmptyValue =
    "the value is empty (is a variable not set?); give a value, or omit the option or argument";

std::vector<CLI::App*> subcommands_of(CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}
std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Makes every option and argument refuse an empty value. It is mostly a shell variable that is not set, and the
/// command would silently do something else.
void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* const option : app.get_options())
    if (option->get_items_expected_max() > 0)
      option->check([](const std::string& text) { return std::string(text.empty() ? kEmptyValue : ""); }, "");
  for (CLI::App* const command : subcommands_of(app)) refuse_empty_values(*command);
}

/// The parser of the whole command line.
class Parser {
 public:
  /// For command lines that begin with the command `only`, or for all if it is empty.
  explicit Parser(std::string_view only = {}) : app_("", "heapprof") {
    app_.require_subcommand(1);
    app_.set_version_flag("-V,--version", printed_version);
    declare_commands(app_, chosen, only);
    refuse_empty_values(app_);
  }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;

  CLI::App& app() { return app_; }
  std::optional<CommandOptions> chosen;

 private:
  CLI::App app_;
};

// --- Descriptions of commands ----------------------------------------------------------------------------

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& word : option.get_lnames()) names.push_back("--" + word);
  if (names.empty()) names.push_back(option.get_name(true));
  return names;
}

/// The words of "heap|mmap|all" and "[on|off]". For "TRACE pause|resume|mark TEXT": the words after TRACE, each
/// without its argument.
std::vector<std::string> choices_of(std::string type) {
  const std::size_t bar = type.find('|');
  if (bar == std::string::npos) return {};
  if (type.front() == '[') type = type.substr(1, type.size() - 2);
  const std::size_t before = type.rfind(' ', type.find('|'));
  const std::string list = before == std::string::npos ? type : type.substr(before + 1);
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find('|', at), list.size());
    words.push_back(list.substr(at, std::min(list.find(' ', at), end) - at));
    at = end + 1;
  }
  return words;
}

OptionHelp describe(const CLI::Option& option) {
  OptionHelp help;
  help.names = names_of(option);
  help.value = option.get_type_name();
  help.choices = choices_of(help.value);
  help.help = option.get_description();
  if (!option.get_default_str().empty()) help.help += " (default " + option.get_default_str() + ")";
  help.group = option.get_group();
  help.repeatable = option.get_items_expected_max() > 1;
  return help;
}

CommandHelp describe(const CLI::App& command, const std::string& name) {
  CommandHelp help;
  help.name = name;
  help.summary = command.get_description();
  help.group = command.get_group();
  help.footer = command.get_footer();
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    OptionHelp one = describe(*option);
    if (option->nonpositional()) {
      help.options.push_back(std::move(one));
      continue;
    }
    const bool names_itself = one.value.find(' ') != std::string::npos;  // "TRACE pause|resume|..."
    const bool takes_several = option->get_allow_extra_args() && option->get_option_text().empty();
    const std::string operand = names_itself ? one.value : one.names.front() + (takes_several ? "..." : "");
    help.usage +=
        (help.usage.empty() ? "" : " ") + (option->get_required() || names_itself ? operand : "[" + operand + "]");
    if (one.choices.empty() || names_itself) help.takes_file = true;
    if (!one.choices.empty()) help.words = one.choices;
    help.arguments.push_back(std::move(one));
  }
  for (const CLI::App* member : subcommands_of(command)) {
    help.subcommands.push_back(describe(*member, name + " " + member->get_name()));
    if (help.subcommands.back().footer.empty()) help.subcommands.back().footer = help.footer;
  }
  if (name == "record") {
    help.usage = "[--] PROGRAM [ARGUMENT...]";
    help.runs_program = true;
  } else if (name == "query") {
    help.usage = "TRACE... [SQL]";
  } else if (name == "control") {
    help.instead_of_file = "--pid";
  }
  return help;
}

/// The arguments of `help` and `manual` are commands.
void offer_commands(std::vector<CommandHelp>& commands) {
  std::vector<std::string> words, pages = {"heapprof"};
  for (const CommandHelp& command : commands) {
    words.push_back(command.name);
    for (const CommandHelp& one : command.subcommands)
      pages.push_back("heapprof-" + command.name + "-" + one.name.substr(command.name.size() + 1));
    if (!command.subcommands.empty()) continue;
    pages.push_back("heapprof-" + command.name);
    pages.push_back(command.name);
  }
  for (CommandHelp& command : commands) {
    if (command.name != "help" && command.name != "manual") continue;
    command.takes_file = false;
    command.words = command.name == "help" ? words : pages;
  }
}

// --- Messages about wrong command lines ------------------------------------------------------------------

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> all;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->nonpositional() || option->get_group().empty()) continue;
    const std::vector<std::string> names = names_of(*option);
    all.insert(all.end(), names.begin(), names.end());
  }
  return all;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string> command_names(const CLI::App& group) {
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands_of(group)) names.push_back(command->get_name());
  return names;
}

bool is_option(const std::string& word) { return word.size() > 1 && word.front() == '-' && word != "--"; }

/// The first option among words that the parser did not know, without its value; empty: there is none.
std::string unknown_option(const std::vector<std::string>& words) {
  const auto found = std::find_if(words.begin(), words.end(), is_option);
  return found == words.end() ? std::string() : found->substr(0, found->find('='));
}

std::string unknown_option_message(const std::string& option, const CLI::App& command) {
  return "unknown option '" + option + "'" + did_you_mean(option, option_names(command));
}

std::string unknown_command_message(const std::string& name, const CLI::App& group) {
  return "unknown command '" + name + "'" + did_you_mean(name.substr(name.rfind(' ') + 1), command_names(group));
}

/// What to give for an operand that is missing, for the end of a sentence; empty: its name says that.
std::string hint_for_operand(const std::string& name) {
  if (name == "AFTER")
    return ": give a second recording, or two moments of one, as in 'heapprof diff TRACE@1 TRACE@2.5' (seconds)";
  if (name == "FUNCTION") return "; 'heapprof report TRACE --by function' lists the functions";
  return {};
}

/// The parser's message, reworded.
std::string reworded(const CLI::Error& error) {
  std::string text = error.what();
  if (error.get_name() == "ParseError") return text;  // refuse() wrote it
  const auto cut = [&](const std::string& end) { return text.substr(0, text.find(end)); };
  const std::string conversion = "Could not convert: ";
  if (const std::size_t equals = text.find(" = "); text.starts_with(conversion) && equals != std::string::npos)
    return "unexpected value '" + text.substr(equals + 3) + "' for " +
           text.substr(conversion.size(), equals - conversion.size()) + ", which takes none";
  if (text.ends_with(" was given a disallowed flag override"))
    return "unexpected value for --" + cut(" was given") + ", which takes none";
  if (text.find(": 1 required ") != std::string::npos && text.ends_with(" missing"))
    return "missing value for " + cut(": 1 required ");
  if (const std::size_t at = text.find(": At Most "); at != std::string::npos)
    return text.substr(0, at) + " was given more than once; give it once";
  if (const std::size_t at = text.find(" excludes "); at != std::string::npos)
    return text.substr(0, at) + " and " + text.substr(at + 10) + " exclude each other; give one of them";
  if (text.ends_with(" is required")) {
    const std::string name = cut(" is required");
    return (name.starts_with("-") ? "missing option " : "missing argument ") + name + hint_for_operand(name);
  }
  return text;
}

/// The command that the parser had reached, and its name with "heapprof".
std::pair<const CLI::App*, std::string> reached_command(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name = "heapprof";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  return {command, name};
}

/// The message about an option that was written before its command; empty: there is none.
std::string misplaced_option_message(const CLI::App& app, const CLI::App& command, const std::string& name) {
  const std::vector<std::string> known = option_names(command);
  for (const CLI::App* group = command.get_parent(); group != nullptr; group = group->get_parent()) {
    const std::string option = unknown_option(group->remaining());
    if (!option.empty() && has(known, option))
      return option + " is an option of '" + name + "'; write it after the command: '" + name + " " + option + "'";
  }
  if (&command != &app) return {};
  const std::string option = unknown_option(app.remaining());
  std::string example;
  for (const CLI::App* one : subcommands_of(app))
    if (has(option_names(*one), option) && (example.empty() || one->get_name() == "report"))
      example = one->get_name();
  return example.empty() ? example
                         : option + " is an option of commands; write it after a command, such as 'heapprof " +
                               example + " " + option + "'";
}

/// The message about a wrong command line.
std::string message_for(const CLI::App& app, const CLI::Error& error) {
  const auto [command, name] = reached_command(app);
  const bool missing = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
  const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  if (!missing && !extra) return reworded(error);
  // An unknown word comes first: it may be why something else is missing.
  const std::vector<std::string> rest = app.remaining(true);
  if (command != &app || rest.empty() || is_option(rest.front()))
    if (std::string text = misplaced_option_message(app, *command, name); !text.empty()) return text;
  if (command->get_require_subcommand_min() > 0) {
    if (rest.empty()) return "missing command after '" + name + "'";
    if (!is_option(rest.front()))
      return unknown_command_message(command == &app ? rest.front() : command->get_name() + " " + rest.front(),
                                     *command);
  }
  if (const std::string option = unknown_option(rest); !option.empty())
    return unknown_option_message(option, *command);
  const auto argument = std::find_if(rest.begin(), rest.end(), [](const std::string& word) { return word != "--"; });
  if (extra && argument != rest.end()) return "unexpected argument '" + *argument + "'";
  return reworded(error);
}

// --- Arguments instead of a command ----------------------------------------------------------------------

/// Whether `word`, which is written instead of a command, is a file to report on. The name of a command has priority;
/// a file with that name is written ./report.
bool names_file(const CLI::App& app, const std::string& word) {
  if (word.empty() || word.front() == '-' || has(command_names(app), word)) return false;
  std::error_code ignored;
  return word.find('/') != std::string::npos || is_named_as_trace(word) ||
         std::filesystem::is_regular_file(word, ignored);
}

bool is_program(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0 && !is_trace(path);
}

/// The option that is given an empty value (--thread=), if any. The parser would take the next word as its value.
std::string option_with_empty_value(const CLI::App& app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    std::string name = word.substr(0, word.size() - 1);
    for (const CLI::App* command : subcommands_of(app)) {
      if (has(option_names(*command), name)) return name;
      for (const CLI::App* member : subcommands_of(*command))
        if (has(option_names(*member), name)) return name;
    }
  }
  return {};
}

/// Joins --survivors and its value, which the parser could not distinguish from the TRACE that follows. The next word
/// is a value unless it is an option or a recording; without a value the end of the recording is meant.
void join_survivors(std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (words[i] != "--survivors") continue;
    std::error_code ignored;
    const bool has_value = i + 1 < words.size() && !words[i + 1].starts_with("-") &&
                           !is_named_as_trace(words[i + 1]) && !std::filesystem::exists(words[i + 1], ignored);
    words[i] += "=" + (has_value ? words[i + 1] : "end");
    if (has_value) words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
}

/// Whether the command that `help` explains exists. False: `error` is a sentence.
bool check_help(const CLI::App& app, const std::string& name, std::string& error) {
  const CLI::App* command = &app;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find(' ', at), name.size());
    const std::string word = name.substr(at, end - at);
    if (!has(command_names(*command), word)) {
      error = unknown_command_message(name.substr(0, end), *command);
      return false;
    }
    command = command->get_subcommand(word);
    at = end + 1;
  }
  return true;
}

CommandLine wrong(const std::string& message, const std::string& help_of = {}) {
  print_message(message);
  if (!help_of.empty()) std::fprintf(stderr, "See '%s --help'.\n", help_of.c_str());
  return {std::nullopt, kWrongCommandLine};
}

/// The help of the command that the parser had reached.
CommandLine help_of(const CLI::App& app) {
  const std::string name = reached_command(app).second;  // "heapprof export csv"
  const std::size_t space = name.find(' ');
  return {HelpOptions{space == std::string::npos ? std::string() : name.substr(space + 1)}, 0};
}

CommandLine parse_record(const std::vector<std::string>& words) {
  RecordOptions options;
  bool wants_help = false;
  std::string error;
  if (!parse_record_options(words, options, wants_help, error)) return wrong(error);
  if (wants_help) return {HelpOptions{"record"}, 0};
  return {std::move(options), 0};
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  if (words.empty()) return {FirstScreenOptions{}, 0};
  if (words.front() == "record") return parse_record({words.begin() + 1, words.end()});
  if (words.front() == "--recorder-path") {
    if (words.size() > 1) return wrong("unexpected argument '" + words[1] + "'", "heapprof");
    return {RecorderPathOptions{}, 0};
  }

  // `help` takes the name of any command.
  const bool is_one = words.front() != "help" && is_command(words.front());
  Parser parser(is_one ? words.front() : std::string_view());
  CLI::App& app = parser.app();
  if (names_file(app, words.front())) {
    if (is_program(words.front()))
      return wrong(words.front() + " is a program, not a recording; to record it: heapprof record -- " +
                   words.front());
    words.insert(words.begin(), "report");
  }
  if (const std::string option = option_with_empty_value(app, words); !option.empty())
    return wrong(option + ": " + kEmptyValue);

  join_survivors(words);

  try {
    // The parser expects the words in reverse order.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::CallForHelp&) {
    return help_of(app);
  } catch (const CLI::CallForVersion& version) {
    return {std::nullopt, print_text(version.what() + std::string("\n"))};
  } catch (const CLI::ParseError& error) {
    // The parser checks the options of a command before it handles --help before the command.
    if (app.get_help_ptr()->count() != 0) return help_of(app);
    return wrong(message_for(app, error), reached_command(app).second);
  }
  if (!parser.chosen) return wrong("missing command", "heapprof");
  if (const auto* help = std::get_if<HelpOptions>(&*parser.chosen))
    if (std::string error; !check_help(app, help->command, error)) return wrong(error, "heapprof");
  return {std::move(parser.chosen), 0};
}

// Options end at PROGRAM, so the parser treats the first unknown word as the beginning of the program's command line.
// The word after a switch such as --children is its value only if it is a valid one (on, off, ...) and a program
// follows. The parser does not support this, so such a word is joined to its switch, and all words are parsed again.
bool parse_record_options(const std::vector<std::string>& arguments, RecordOptions& options, bool& wants_help,
                          std::string& error) {
  const auto fail = [&](std::string text) {
    error = std::move(text);
    return false;
  };
  wants_help = false;
  std::vector<std::string> words = arguments;
  for (;;) {
    options = {};
    CLI::App app;
    app.prefix_command();
    declare_record(app, options);
    const auto own_words = [&] { return words.size() - std::min(words.size(), app.remaining().size()); };
    const auto empty_value = [&]() -> std::string {
      for (std::size_t i = 0; i < own_words(); ++i)
        if (words[i].ends_with("=") && has(option_names(app), words[i].substr(0, words[i].size() - 1)))
          return words[i].substr(0, words[i].size() - 1);
      return {};
    };
    try {
      app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::CallForHelp&) {
      return wants_help = true;
    } catch (const CLI::ParseError& wrong_option) {
      const std::string option = empty_value();
      return fail(option.empty() ? reworded(wrong_option) : option + ": " + kEmptyValue);
    }
    std::vector<std::string> rest = app.remaining();
    if (!rest.empty() && is_option(rest.front())) {
      const std::string option = unknown_option(rest);
      const std::string message = unknown_option_message(option, app);
      return fail(message.ends_with('?') ? message : message + "; see 'heapprof record --help'");
    }
    if (const std::string option = empty_value(); !option.empty()) return fail(option + ": " + kEmptyValue);
    const std::size_t own = own_words();
    const std::vector<CLI::Option*> parsed = app.parse_order();
    if (rest.size() > 1 && launch::is_switch_value(rest.front()) && !parsed.empty() &&
        parsed.back()->get_type_name() == "[on|off]" && has(names_of(*parsed.back()), words[own - 1])) {
      words[own - 1] += "=" + words[own];
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(own));
      continue;
    }
    if (!rest.empty() && rest.front() == "--") rest.erase(rest.begin());
    if (rest.empty()) return fail("missing argument PROGRAM; usage: heapprof record [options] PROGRAM [ARGUMENT...]");
    if (rest.front().empty()) return fail("PROGRAM: " + std::string(kEmptyValue));
    options.command = std::move(rest);
    return true;
  }
}

std::vector<CommandHelp> describe_commands() {
  Parser parser;
  std::vector<CommandHelp> commands;
  for (const CLI::App* command : subcommands_of(std::as_const(parser.app())))
    commands.push_back(describe(*command, command->get_name()));
  offer_commands(commands);
  return commands;
}

std::vector<CommandHelp> runnable(const std::vector<CommandHelp>& commands) {
  std::vector<CommandHelp> result;
  for (const CommandHelp& command : commands) {
    if (command.subcommands.empty()) result.push_back(command);
    for (const CommandHelp& one : command.subcommands) result.push_back(one);
  }
  return result;
}

}  // namespace heapprof::cli
