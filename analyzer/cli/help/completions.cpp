// heapprof completions: scripts for the shells, made from the same description of the commands as --help.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "analyzer/cli/options/command_help.h"

namespace heapprof::cli {
namespace {

using launch::OptionHelp;

std::string join(const std::vector<std::string>& words, const char* between) {
  std::string result;
  for (const std::string& word : words) result += (result.empty() ? "" : between) + word;
  return result;
}

std::vector<std::string> option_names(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

bool needs_value(const OptionHelp& option) { return !option.value.empty() && option.value.front() != '['; }

std::vector<std::string> options_with_value(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options)
    if (needs_value(option)) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

/// "export": the words that may follow it.
std::map<std::string, std::vector<const CommandHelp*>> groups_of(const std::vector<CommandHelp>& commands) {
  std::map<std::string, std::vector<const CommandHelp*>> groups;
  for (const CommandHelp& command : commands)
    if (const std::size_t space = command.name.find(' '); space != std::string::npos)
      groups[command.name.substr(0, space)].push_back(&command);
  return groups;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

/// `text` in single quotes of a POSIX shell, or of fish.
std::string in_quotes(const std::string& text, bool fish = false) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') result += fish ? "\\'" : "'\\''";
    else if (c == '\\' && fish) result += "\\\\";
    else result += c == '\n' ? ' ' : c;
  }
  return result + "'";
}

/// Up to the first full stop or semicolon: a menu has little room.
std::string brief(const std::string& help) {
  const std::size_t end = help.find_first_of(";:\n");
  return help.substr(0, end);
}

/// For use within brackets of zsh's _arguments.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string bash_completions(const CLI::App& app) {
  const std::vector<CommandHelp> commands = describe_commands(app);
  std::vector<std::string> words;
  for (const auto& [name, summary] : first_words(app)) words.push_back(name);
  std::string text =
      "# bash completion for heapprof, written by `heapprof completions bash`.\n"
      "_heapprof() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
      "  local i skip=0 operands=0\n"
      "  COMPREPLY=()\n"
      "  # --option=value is three words to bash.\n"
      "  if [[ $cur == = ]]; then cur=; prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '" + join(words, " ") + " --help -V --version' -- \"$cur\"))\n"
      "    return\n"
      "  fi\n";
  for (const auto& [group, members] : groups_of(commands)) {
    std::vector<std::string> names;
    for (const CommandHelp* member : members) names.push_back(last_word(member->name));
    text += "  if [[ $command == " + group + " ]]; then\n"
            "    if ((COMP_CWORD == 2)); then\n"
            "      COMPREPLY=($(compgen -W '" + join(names, " ") + " --help' -- \"$cur\"))\n"
            "      return\n"
            "    fi\n"
            "    command+=\" ${COMP_WORDS[2]}\"\n"
            "  fi\n";
  }
  text += "  case \"$command $prev\" in\n";
  for (const CommandHelp& command : commands)
    for (const OptionHelp& option : command.options) {
      if (!needs_value(option)) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back("'" + command.name + " " + name + "'");
      text += "    " + join(patterns, " | ") + ") ";
      if (option.file) text += "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))";
      else if (!option.choices.empty())
        text += "COMPREPLY=($(compgen -W '" + join(option.choices, " ") + "' -- \"$cur\"))";
      text += (option.file || !option.choices.empty() ? "; return ;;\n" : "return ;;\n");
    }
  text += "  esac\n"
          "  case $command in\n";
  for (const CommandHelp& command : commands) {
    text += "    " + in_quotes(command.name) + ")\n";
    if (command.runs_program) {
      text +=
          "      # Behind the program's name the words are that program's.\n"
          "      for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "        if ((skip)); then [[ ${COMP_WORDS[i]} == = ]] || skip=0; continue; fi\n"
          "        case ${COMP_WORDS[i]} in\n"
          "          " +
          join(options_with_value(command), " | ") +
          ") skip=1 ;;\n"
          "          --) ((i++)); break ;;\n"
          "          -*) ;;\n"
          "          *) break ;;\n"
          "        esac\n"
          "      done\n"
          "      if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then\n"
          "        _command_offset \"$i\"\n"
          "        return\n"
          "      fi\n"
          "      if ((i < COMP_CWORD)); then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
          "        return\n"
          "      fi\n"
          "      if [[ $cur != -* ]]; then\n"
          "        compopt -o filenames 2>/dev/null\n"
          "        COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
          "        return\n"
          "      fi\n";
    }
    const bool word_follows_file = command.takes_file && !command.words.empty();
    if (word_follows_file)
      text +=
          "      for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "        if ((skip)); then [[ ${COMP_WORDS[i]} == = ]] || skip=0; continue; fi\n"
          "        case ${COMP_WORDS[i]} in\n"
          "          " +
          command.instead_of_file +
          ") skip=1; ((operands++)) ;;\n"
          "          " +
          join(options_with_value(command), " | ") +
          ") skip=1 ;;\n"
          "          -*) ;;\n"
          "          *) ((operands++)) ;;\n"
          "        esac\n"
          "      done\n";
    text += "      if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '" + join(option_names(command), " ") +
            "' -- \"$cur\"))\n";
    if (word_follows_file)
      text += "      elif ((operands == 0)); then\n"
              "        compopt -o filenames 2>/dev/null\n"
              "        COMPREPLY=($(compgen -f -- \"$cur\"))\n"
              "      elif ((operands == 1)); then COMPREPLY=($(compgen -W '" +
              join(command.words, " ") + "' -- \"$cur\"))\n";
    else if (!command.words.empty())
      text += "      else COMPREPLY=($(compgen -W '" + join(command.words, " ") + "' -- \"$cur\"))\n";
    else if (command.takes_file)
      text += "      else compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\"))\n";
    text += "      fi ;;\n";
  }
  return text +
         "  esac\n"
         "}\n"
         "complete -F _heapprof heapprof\n";
}

std::string zsh_completions(const CLI::App& app) {
  std::string text =
      "#compdef heapprof\n"
      "# zsh completion for heapprof, written by `heapprof completions zsh`.\n"
      "_heapprof() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const auto& [name, summary] : first_words(app))
    text += "    " + in_quotes(zsh_text(name) + ":" + summary) + "\n";
  text += "  )\n"
          "  if ((CURRENT == 2)); then\n"
          "    if [[ $words[2] == -* ]]; then compadd -- --help -V --version\n"
          "    else _describe -t commands command commands; fi\n"
          "    return\n"
          "  fi\n"
          "  local command=$words[2]\n"
          "  shift words\n"
          "  ((CURRENT--))\n";
  const std::vector<CommandHelp> commands = describe_commands(app);
  for (const auto& [group, members] : groups_of(commands)) {
    text += "  if [[ $command == " + group + " ]]; then\n"
            "    commands=(\n";
    for (const CommandHelp* member : members)
      text += "      " + in_quotes(last_word(member->name) + ":" + member->summary) + "\n";
    text += "    )\n"
            "    if ((CURRENT == 2)); then _describe -t commands format commands; return; fi\n"
            "    command+=\" $words[2]\"\n"
            "    shift words\n"
            "    ((CURRENT--))\n"
            "  fi\n";
  }
  text += "  case $command in\n";
  for (const CommandHelp& command : commands) {
    text += "    " + in_quotes(command.name) + ")\n";
    const bool word_follows_file = command.takes_file && !command.words.empty();
    if (word_follows_file)
      text += "      local -a operands\n"
              "      operands=('1:file:_files' '2:word:(" + join(command.words, " ") + ")')\n"
              "      if ((${words[(I)" + command.instead_of_file + "*]})); then operands=('1:word:(" +
              join(command.words, " ") + ")'); fi\n";
    text += "      _arguments -S";
    for (const OptionHelp& option : command.options)
      for (const std::string& name : option.names) {
        std::string spec = "*" + name + "[" + zsh_text(brief(option.help)) + "]";
        if (needs_value(option)) {
          spec += ":" + zsh_text(option.choices.empty() ? option.value : "value") + ":";
          if (option.file) spec += "_files";
          else if (!option.choices.empty()) spec += "(" + join(option.choices, " ") + ")";
        }
        text += " \\\n        " + in_quotes(spec);
      }
    if (command.runs_program) text += " \\\n        '*::program:_normal'";
    else if (word_follows_file) text += " \\\n        $operands";
    else if (!command.words.empty()) text += " \\\n        " + in_quotes("*:word:(" + join(command.words, " ") + ")");
    else if (command.takes_file) text += " \\\n        '*:file:_files'";
    text += " ;;\n";
  }
  return text +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _heapprof ]]; then _heapprof \"$@\"; else compdef _heapprof heapprof; fi\n";
}

std::string fish_completions(const CLI::App& app) {
  const std::vector<CommandHelp> commands = describe_commands(app);
  std::string text =
      "# fish completion for heapprof, written by `heapprof completions fish`.\n"
      "function __heapprof_on\n"
      "    # Whether the words so far begin with these: the command, and for some one word more.\n"
      "    set -l words (commandline -opc)\n"
      "    set -l last (math 1 + (count $argv))\n"
      "    test (count $words) -ge $last; and test \"$words[2..$last]\" = \"$argv\"\n"
      "end\n"
      "function __heapprof_operands\n"
      "    # How many operands stand behind the command; $argv: its options that take a value, first the one\n"
      "    # that is itself in the place of an operand.\n"
      "    set -l words (commandline -opc)\n"
      "    set -e words[1..2]\n"
      "    set -l operands 0\n"
      "    set -l skip 0\n"
      "    for word in $words\n"
      "        if test $skip = 1\n"
      "            set skip 0\n"
      "            continue\n"
      "        end\n"
      "        if string match -qr -- \"^$argv[1](=|\\$)\" $word; or not string match -q -- '-*' $word\n"
      "            set operands (math $operands + 1)\n"
      "        end\n"
      "        contains -- $word $argv; and set skip 1\n"
      "    end\n"
      "    echo $operands\n"
      "end\n"
      "complete -c heapprof -n 'test (count (commandline -opc)) -eq 1' -l help -d 'Show help'\n"
      "complete -c heapprof -n 'test (count (commandline -opc)) -eq 1' -s V -l version -d 'Show the version'\n";
  const auto line = [&](const std::string& rest) { text += "complete -c heapprof " + rest + "\n"; };
  for (const auto& [name, summary] : first_words(app))
    line("-f -n 'test (count (commandline -opc)) -eq 1' -a " + in_quotes(name, true) + " -d " +
         in_quotes(summary, true));
  for (const auto& [group, members] : groups_of(commands))
    for (const CommandHelp* member : members)
      line("-f -n '__heapprof_on " + group + "; and test (count (commandline -opc)) -eq 2' -a " +
           in_quotes(last_word(member->name), true) + " -d " + in_quotes(member->summary, true));
  for (const CommandHelp& command : commands) {
    const std::string on = "-n '__heapprof_on " + command.name + "' ";
    for (const OptionHelp& option : command.options) {
      std::string rest = on;
      for (const std::string& name : option.names)
        rest += name.compare(0, 2, "--") == 0 ? "-l " + name.substr(2) + " " : "-s " + name.substr(1) + " ";
      if (needs_value(option)) {
        if (option.file) rest += "-r -F ";
        else if (!option.choices.empty()) rest += "-x -a " + in_quotes(join(option.choices, " "), true) + " ";
        else rest += "-x ";
      }
      line(rest + "-d " + in_quotes(brief(option.help), true));
    }
    if (command.takes_file && !command.words.empty()) {
      const std::string operands = "-f -n '__heapprof_on " + command.name + "; and test (__heapprof_operands " +
                                   command.instead_of_file + " " + join(options_with_value(command), " ") + ") ";
      line(operands + "-eq 1' -a " + in_quotes(join(command.words, " "), true));
      line(operands + "-gt 1'");
    } else if (!command.words.empty()) line("-f " + on + "-a " + in_quotes(join(command.words, " "), true));
    if (command.runs_program) line("-f " + on + "-a '(__fish_complete_subcommand --fcs-skip=2)'");
  }
  return text;
}

void add_completions(CLI::App& app, int& status) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* const command = app.add_subcommand("completions", "Print a completion script for a shell");
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}).description("bash|zsh|fish"));
  command->footer("heapprof completions bash >~/.local/share/bash-completion/completions/heapprof\n"
                  "heapprof completions zsh >FOLDER/_heapprof, where FOLDER is in fpath\n"
                  "heapprof completions fish >~/.config/fish/completions/heapprof.fish");
  command->callback([shell, &app, &status] {
    const std::string text = *shell == "bash"  ? bash_completions(app)
                             : *shell == "zsh" ? zsh_completions(app)
                                               : fish_completions(app);
    status = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
  });
}

}  // namespace heapprof::cli
