// docs/reference.md, which `heapprof manual --markdown` prints.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/cli/help/help.h"
#include "analyzer/launch/recorder_settings.h"

namespace heapprof::cli {
namespace {

/// Groups of options that many commands share are described once.
struct SharedGroup {
  std::string name;
  std::string link;
  std::string description;
  std::vector<OptionHelp> options;
};

/// `report` has all options of these groups.
std::vector<SharedGroup> shared_groups(const std::vector<CommandHelp>& commands) {
  std::vector<SharedGroup> groups = {
      {"Call sites",
       "[call sites](#call-sites)",
       "Options that choose the call site of a call stack, define which code is the program's own, and set how names "
       "are printed.",
       {}},
      {"Selection",
       "[selection](#selection)",
       "Options that select blocks, events and a slice of time, of every command that analyzes a trace, except "
       "`pins`, `rss`, `top` and `export rows`.",
       {}},
      {"Symbols", "[symbols](#symbols)", "Options about the names of functions, files and lines.", {}}};
  for (const CommandHelp& command : commands)
    if (command.name == "report")
      for (const OptionHelp& option : command.options)
        for (SharedGroup& group : groups)
          if (group.name == option.group) group.options.push_back(option);
  return groups;
}

bool has_name(const std::vector<OptionHelp>& options, const std::string& name) {
  return std::any_of(options.begin(), options.end(),
                     [&](const OptionHelp& option) { return option.names.back() == name; });
}

/// Whether the group describes the option as its command does.
bool describes(const SharedGroup& group, const OptionHelp& option) {
  return std::any_of(group.options.begin(), group.options.end(), [&](const OptionHelp& one) {
    return one.group == option.group && one.names == option.names && one.value == option.value &&
           one.help == option.help;
  });
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

/// The group of options and, if the command does not have all of them, which are missing.
std::string link_to(const SharedGroup& group, const CommandHelp& command) {
  std::string missing;
  for (const OptionHelp& option : group.options)
    if (!has_name(command.options, option.names.back()))
      missing += (missing.empty() ? " (not " : ", ") + code(option.names.back());
  return group.link + (missing.empty() ? "" : missing + ")");
}

std::string command_section(const CommandHelp& command, const std::vector<SharedGroup>& groups) {
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
  std::string links;
  for (const SharedGroup& group : groups)
    if (std::any_of(command.options.begin(), command.options.end(),
                    [&](const OptionHelp& option) { return describes(group, option); }))
      links += (links.empty() ? "" : ", ") + link_to(group, command);
  for (const OptionHelp& option : command.options) {
    const bool is_shared =
        std::any_of(groups.begin(), groups.end(), [&](const SharedGroup& group) { return describes(group, option); });
    if (!is_shared && option.names.back() != "--help") text += option_row(option);
  }
  if (!links.empty()) text += "\nAlso: " + links + ".\n";
  if (!command.footer.empty()) {
    text += "\n";
    for (const char c : command.footer)
      text += c == '\n' ? std::string("<br>\n") : c == '<' ? std::string("&lt;") : std::string(1, c);
    text += "\n";
  }
  return text + "\n";
}

std::string group_section(const SharedGroup& group) {
  std::string text = "## " + group.name + "\n\n" + group.description + "\n\n| option | effect |\n|---|---|\n";
  for (const OptionHelp& option : group.options) text += option_row(option);
  return text + "\n";
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
      "* [Call sites](#call-sites)\n"
      "* [Selection](#selection)\n"
      "* [Symbols](#symbols)\n"
      "* [Environment variables](#environment-variables)\n"
      "* [Exit statuses](#exit-statuses)\n\n"
      "The keys of `--json` are on a page of their own: [JSON output](json.md).\n\n"
      "## Commands\n\n"
      "TRACE is a recording; its program may have ended, been killed, or still run. `heapprof TRACE` is\n"
      "`heapprof report TRACE`. A command whose only argument is TRACE reads the newest recording in the current\n"
      "directory when none is given. `-h` and `--help` print the help of a command. `heapprof --version` prints the\n"
      "version, and `heapprof --recorder-path` the path of the recorder, for `LD_PRELOAD`.\n\n"
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
  const std::vector<SharedGroup> groups = shared_groups(commands);
  for (const CommandHelp& command : commands) {
    if (command.subcommands.empty()) text += command_section(command, groups);
    for (const CommandHelp& one : command.subcommands) text += command_section(one, groups);
  }
  for (const SharedGroup& group : groups) text += group_section(group);
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
