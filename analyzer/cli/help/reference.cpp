// docs/reference.md, which `heapprof manual --markdown` prints.
#include <algorithm>
#include <string_view>

#include "analyzer/cli/help/help.h"
#include "analyzer/launch/recorder_settings.h"

namespace heapprof::cli {
namespace {

/// Options that so many commands share are described once.
constexpr const char* kSharedGroups[] = {"Selection", "Symbols"};

bool is_shared(const OptionHelp& option) {
  return std::any_of(std::begin(kSharedGroups), std::end(kSharedGroups),
                     [&](const char* group) { return option.group == group; });
}

/// Text for a table: bars end cells, angle brackets are tags.
std::string cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') result += "\\|";
    else if (c == '<') result += "&lt;";
    else if (c == '\n') result += "<br>";
    else if (c == '*' || c == '_') result += std::string("\\") + c;
    else result += c;
  }
  return result;
}

/// Text in code font within a table.
std::string code(std::string_view text) {
  std::string result = "`";
  for (const char c : text) result += c == '|' ? "\\|" : std::string(1, c);
  return result + "`";
}

std::string option_row(const OptionHelp& option) {
  std::string names;
  for (std::size_t i = 0; i < option.names.size(); ++i) {
    const bool last = i + 1 == option.names.size();
    names += (i == 0 ? "" : ", ") +
             code(last && !option.value.empty() ? option.names[i] + " " + option.value : option.names[i]);
  }
  return "| " + names + " | " + cell(option.help) + " |\n";
}

std::string anchor(const std::string& command) {
  std::string name = "heapprof-" + command;
  std::replace(name.begin(), name.end(), ' ', '-');
  return "#" + name;
}

std::string command_section(const CommandHelp& command) {
  std::string text = "### heapprof " + command.name + "\n\n" + command.summary + ".\n\n";
  text += "```\nheapprof " + command.name + " [options]" + (command.usage.empty() ? "" : " " + command.usage) +
          "\n```\n\n";
  text += "| option | effect |\n|---|---|\n";
  for (const OptionHelp& argument : command.arguments) {
    OptionHelp shown = argument;
    const bool names_itself = argument.value.find(' ') != std::string::npos;
    if (names_itself) shown.names = {argument.value};
    shown.value.clear();
    text += option_row(shown);
  }
  bool shares = false;
  for (const OptionHelp& option : command.options) {
    shares |= is_shared(option);
    if (!is_shared(option) && option.names.back() != "--help") text += option_row(option);
  }
  if (shares) {
    const bool selects = std::any_of(command.options.begin(), command.options.end(),
                                     [](const OptionHelp& option) { return option.group == "Selection"; });
    text += std::string("\nAlso: ") + (selects ? "[selection](#selection), " : "") + "[symbols](#symbols).\n";
  }
  if (!command.footer.empty()) {
    text += "\n";
    for (const char c : command.footer)
      text += c == '\n' ? std::string("<br>\n") : c == '<' ? std::string("&lt;") : std::string(1, c);
    text += "\n";
  }
  return text + "\n";
}

std::string shared_options(const std::vector<CommandHelp>& commands, const std::string& group) {
  for (const CommandHelp& command : commands) {
    if (command.name != "report") continue;
    std::string text = "| option | effect |\n|---|---|\n";
    for (const OptionHelp& option : command.options)
      if (option.group == group) text += option_row(option);
    return text + "\n";
  }
  return {};
}

std::string exit_status_table(const std::vector<ExitStatus>& statuses) {
  std::string text = "| status | meaning |\n|---|---|\n";
  for (const ExitStatus& one : statuses) text += "| " + code(one.status) + " | " + cell(one.meaning) + " |\n";
  return text + "\n";
}

std::string variables() {
  std::string text = "| variable | option of `record` | values | effect | default |\n|---|---|---|---|---|\n";
  for (const launch::RecorderSetting& setting : launch::recorder_settings())
    if (!setting.deprecated)
      text += "| " + code(setting.variable) + " | " + code(setting.option) + " | " +
              cell(launch::expected_value(setting)) + " | " + cell(setting.help) + " | " +
              cell(setting.default_value) + " |\n";
  text += "\nOld names, which still work:\n\n| variable | replaced by |\n|---|---|\n";
  const auto settings = launch::recorder_settings();
  for (std::size_t i = 1; i < settings.size(); ++i)
    if (settings[i].deprecated)
      text += "| " + code(settings[i].variable) + " | " + code(settings[i - 1].variable) + " |\n";
  return text +
         "\nVariables of the commands that analyze a trace:\n\n"
         "| variable | effect |\n|---|---|\n"
         "| `HEAPPROF_PUSH_HEADERS` | HTTP headers of `heapprof push`, a line NAME: VALUE each |\n"
         "| `HEAPPROF_SYMBOL_CACHE` | `off`, `0` or `no`: neither read nor write the cache of names |\n"
         "| `XDG_CACHE_HOME` | directory of the caches of names and indexes, default `~/.cache` |\n"
         "| `DEBUGINFOD_URLS` | servers that `--debuginfod` downloads debug files from |\n"
         "| `NO_COLOR` | when set: no colors |\n\n";
}

}  // namespace

std::string reference_markdown(const std::vector<CommandHelp>& commands) {
  std::string text =
      "# Reference\n\n"
      "Commands, options, environment variables and exit statuses. `heapprof manual --markdown` prints this file;\n"
      "`heapprof COMMAND --help` and the manual pages have the same descriptions.\n\n"
      "* [Commands](#commands)\n"
      "* [Selection](#selection)\n"
      "* [Symbols](#symbols)\n"
      "* [Environment variables](#environment-variables)\n"
      "* [Exit statuses](#exit-statuses)\n\n"
      "The keys of `--json` are on a page of their own: [JSON output](json.md).\n\n"
      "## Commands\n\n"
      "TRACE is a recording; its program may have ended, been killed, or still run. `heapprof TRACE` is\n"
      "`heapprof report TRACE`. A command whose only argument is TRACE reads the newest recording in the current\n"
      "directory when none is given. `-h` and `--help` print the help of a command.\n\n"
      "| task | commands |\n|---|---|\n";
  std::string group;
  for (const CommandHelp& command : commands) {
    if (command.group != group) text += (group.empty() ? "| " : " |\n| ") + command.group + " | ";
    else text += ", ";
    group = command.group;
    if (command.subcommands.empty()) text += "[" + command.name + "](" + anchor(command.name) + ")";
    for (const CommandHelp& one : command.subcommands)
      text += (&one == &command.subcommands.front() ? "[" : ", [") + one.name + "](" + anchor(one.name) + ")";
  }
  text += " |\n\n";
  for (const CommandHelp& command : commands) {
    if (command.subcommands.empty()) text += command_section(command);
    for (const CommandHelp& one : command.subcommands) text += command_section(one);
  }
  text +=
      "## Selection\n\nOptions that select blocks, events and a slice of time, of every command that analyzes a "
      "trace, except `pins`, `rss`, `top` and `export rows`.\n\n" +
      shared_options(commands, "Selection");
  text += "## Symbols\n\nOptions about the names of functions, files and lines.\n\n" +
          shared_options(commands, "Symbols");
  text +=
      "## Environment variables\n\nSettings of the recorder, read when the program starts. An option of "
      "`heapprof record` sets its variable. In the effects, FILE, SIZE and N stand for the value.\n\n" +
      variables();
  text += "## Exit statuses\n\n" + exit_status_table(common_exit_statuses());
  for (const CommandHelp& command : commands)
    if (command.runs_program) text += "Of `heapprof record`:\n\n" + exit_status_table(exit_statuses(command));
  text.pop_back();  // one line feed at the end
  return text;
}

}  // namespace heapprof::cli
