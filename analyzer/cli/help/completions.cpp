// Completion scripts for the shells.
#include <utility>

#include "analyzer/cli/help/help.h"
#include "analyzer/cli/text/write_output.h"

namespace heapprof::cli {
namespace {

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

std::vector<std::string> options_with_value(const CommandHelp& command) {
  std::vector<std::string> names;
  for (const OptionHelp& option : command.options)
    if (option.needs_value()) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

/// The last words of the subcommands of `group`.
std::vector<std::string> subcommand_words(const CommandHelp& group) {
  std::vector<std::string> words;
  for (const CommandHelp& one : group.subcommands) words.push_back(last_word(one.name));
  return words;
}

/// Whether a word of `command.words` follows a file.
bool word_follows_file(const CommandHelp& command) { return command.takes_file && !command.words.empty(); }

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

/// The help up to the first colon or semicolon: a menu has little room.
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

/// Offers files in bash. `separator`: between the two commands.
std::string bash_files(const std::string& separator) {
  return "compopt -o filenames 2>/dev/null" + separator + "COMPREPLY=($(compgen -f -- \"$cur\"))";
}

/// Offers `words` in bash.
std::string bash_words(const std::vector<std::string>& words) {
  return "COMPREPLY=($(compgen -W '" + join(words, " ") + "' -- \"$cur\"))";
}

/// A loop in bash over the words between the command and the cursor, with the cases of a word. A case that sets
/// skip=1 skips the next word, the value of an option.
std::string bash_word_loop(const std::vector<std::string>& cases) {
  std::string text =
      "      for ((i = 2; i < COMP_CWORD; i++)); do\n"
      "        if ((skip)); then [[ ${COMP_WORDS[i]} == = ]] || skip=0; continue; fi\n"
      "        case ${COMP_WORDS[i]} in\n";
  for (const std::string& one : cases) text += "          " + one + " ;;\n";
  return text +
         "        esac\n"
         "      done\n";
}

}  // namespace

std::string bash_completions(const std::vector<CommandHelp>& all) {
  const std::vector<CommandHelp> commands = runnable(all);
  std::vector<std::string> words;
  for (const CommandHelp& command : all) words.push_back(command.name);
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
      "    # A recording instead of a command is reported.\n"
      "    if [[ $cur == */* ]]; then\n"
      "      " +
      bash_files("\n      ") +
      "\n"
      "    else\n"
      "      COMPREPLY=($(compgen -W '" +
      join(words, " ") +
      " --help -V --version --recorder-path' -- \"$cur\")\n"
      "                 $(compgen -G \"$cur*.heapprof\") $(compgen -G \"$cur*.hprof\"))\n"
      "    fi\n"
      "    return\n"
      "  fi\n";
  for (const CommandHelp& group : all) {
    if (group.subcommands.empty()) continue;
    const std::vector<std::string> names = subcommand_words(group);
    std::vector<std::string> names_and_help = names;
    names_and_help.push_back("--help");
    text += "  if [[ $command == " + group.name +
            " ]]; then\n"
            "    if ((COMP_CWORD == 2)); then\n"
            "      " +
            bash_words(names_and_help) +
            "\n"
            "      return\n"
            "    fi\n"
            "    command+=\" ${COMP_WORDS[2]}\"\n"
            "  fi\n"
            "  if [[ $command == help && COMP_CWORD -gt 2 && ${COMP_WORDS[2]} == " +
            group.name +
            " ]]; then\n"
            "    " +
            bash_words(names) +
            "\n"
            "    return\n"
            "  fi\n";
  }
  text += "  case \"$command $prev\" in\n";
  for (const CommandHelp& command : commands)
    for (const OptionHelp& option : command.options) {
      if (!option.needs_value()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back("'" + command.name + " " + name + "'");
      text += "    " + join(patterns, " | ") + ") ";
      if (option.takes_path()) text += bash_files("; ") + "; ";
      else if (!option.choices.empty()) text += bash_words(option.choices) + "; ";
      text += "return ;;\n";
    }
  text +=
      "  esac\n"
      "  case $command in\n";
  for (const CommandHelp& command : commands) {
    text += "    " + in_quotes(command.name) + ")\n";
    const std::string skip_values = join(options_with_value(command), " | ") + ") skip=1";
    if (command.runs_program) {
      text += "      # Words after the name of the program belong to the program.\n" +
              bash_word_loop({skip_values, "--) ((i++)); break", "-*)", "*) break"}) +
              "      if ((i < COMP_CWORD)) && declare -F _command_offset >/dev/null; then\n"
              "        _command_offset \"$i\"\n"
              "        return\n"
              "      fi\n"
              "      if ((i < COMP_CWORD)); then\n"
              "        " +
              bash_files("\n        ") +
              "\n"
              "        return\n"
              "      fi\n"
              "      if [[ $cur != -* ]]; then\n"
              "        compopt -o filenames 2>/dev/null\n"
              "        COMPREPLY=($(compgen -c -- \"$cur\") $(compgen -f -- \"$cur\"))\n"
              "        return\n"
              "      fi\n";
    }
    if (word_follows_file(command))
      text += bash_word_loop(
          {command.instead_of_file + ") skip=1; ((operands++))", skip_values, "-*)", "*) ((operands++))"});
    text += "      if [[ $cur == -* ]]; then " + bash_words(option_names(command)) + "\n";
    if (word_follows_file(command))
      text +=
          "      elif ((operands == 0)); then\n"
          "        " +
          bash_files("\n        ") +
          "\n"
          "      elif ((operands == 1)); then " +
          bash_words(command.words) + "\n";
    else if (!command.words.empty()) text += "      else " + bash_words(command.words) + "\n";
    else if (command.takes_file) text += "      else " + bash_files("; ") + "\n";
    text += "      fi ;;\n";
  }
  return text +
         "  esac\n"
         "}\n"
         "complete -F _heapprof heapprof\n";
}

std::string zsh_completions(const std::vector<CommandHelp>& all) {
  std::string text =
      "#compdef heapprof\n"
      "# zsh completion for heapprof, written by `heapprof completions zsh`.\n"
      "_heapprof() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CommandHelp& command : all)
    text += "    " + in_quotes(zsh_text(command.name) + ":" + command.summary) + "\n";
  text +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    if [[ $words[2] == -* ]]; then compadd -- --help -V --version --recorder-path\n"
      "    else\n"
      "      _describe -t commands command commands\n"
      "      # A recording instead of a command is reported.\n"
      "      local -a recordings\n"
      "      recordings=(*.(heapprof|hprof)(N))\n"
      "      if [[ $PREFIX == */* ]]; then _files; else compadd -f -- $recordings; fi\n"
      "    fi\n"
      "    return\n"
      "  fi\n"
      "  local command=$words[2]\n"
      "  shift words\n"
      "  ((CURRENT--))\n";
  for (const CommandHelp& group : all) {
    if (group.subcommands.empty()) continue;
    text += "  if [[ $command == " + group.name + " || $command == help && $words[2] == " + group.name +
            " && CURRENT -gt 2 ]]; then\n"
            "    commands=(\n";
    for (const CommandHelp& one : group.subcommands)
      text += "      " + in_quotes(last_word(one.name) + ":" + one.summary) + "\n";
    text +=
        "    )\n"
        "    if [[ $command == help || CURRENT -eq 2 ]]; then _describe -t commands format commands; return; fi\n"
        "    command+=\" $words[2]\"\n"
        "    shift words\n"
        "    ((CURRENT--))\n"
        "  fi\n";
  }
  text += "  case $command in\n";
  for (const CommandHelp& command : runnable(all)) {
    text += "    " + in_quotes(command.name) + ")\n";
    if (word_follows_file(command))
      text +=
          "      local -a operands\n"
          "      operands=('1:file:_files' '2:word:(" +
          join(command.words, " ") +
          ")')\n"
          "      if ((${words[(I)" +
          command.instead_of_file + "*]})); then operands=('1:word:(" + join(command.words, " ") + ")'); fi\n";
    text += "      _arguments -S";
    for (const OptionHelp& option : command.options)
      for (const std::string& name : option.names) {
        std::string spec = "*" + name + "[" + zsh_text(brief(option.help)) + "]";
        if (option.needs_value()) {
          spec += ":" + zsh_text(option.choices.empty() ? option.value : "value") + ":";
          if (option.takes_path()) spec += "_files";
          else if (!option.choices.empty()) spec += "(" + join(option.choices, " ") + ")";
        }
        text += " \\\n        " + in_quotes(spec);
      }
    if (command.runs_program) text += " \\\n        '*::program:_normal'";
    else if (word_follows_file(command)) text += " \\\n        $operands";
    else if (!command.words.empty()) text += " \\\n        " + in_quotes("*:word:(" + join(command.words, " ") + ")");
    else if (command.takes_file) text += " \\\n        '*:file:_files'";
    text += " ;;\n";
  }
  return text +
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _heapprof ]]; then _heapprof \"$@\"; else compdef _heapprof heapprof; fi\n";
}

std::string fish_completions(const std::vector<CommandHelp>& all) {
  std::string text =
      "# fish completion for heapprof, written by `heapprof completions fish`.\n"
      "function __heapprof_on\n"
      "    # Whether the words after heapprof begin with $argv: a command, or a command and its first argument.\n"
      "    set -l words (commandline -opc)\n"
      "    set -l last (math 1 + (count $argv))\n"
      "    test (count $words) -ge $last; and test \"$words[2..$last]\" = \"$argv\"\n"
      "end\n"
      "function __heapprof_operands\n"
      "    # The number of operands after the command. $argv: the options that take a value; the first of these\n"
      "    # replaces an operand.\n"
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
      "function __heapprof_recordings\n"
      "    for file in *.heapprof *.hprof\n"
      "        echo $file\n"
      "    end\n"
      "end\n"
      "complete -c heapprof -n 'test (count (commandline -opc)) -eq 1' -l help -d 'Print help'\n"
      "complete -c heapprof -n 'test (count (commandline -opc)) -eq 1' -s V -l version -d 'Print the version'\n"
      "complete -c heapprof -n 'test (count (commandline -opc)) -eq 1' -l recorder-path -d 'Print the path of the "
      "recorder'\n";
  const auto line = [&](const std::string& rest) { text += "complete -c heapprof " + rest + "\n"; };
  for (const CommandHelp& command : all)
    line("-f -n 'test (count (commandline -opc)) -eq 1' -a " + in_quotes(command.name, true) + " -d " +
         in_quotes(command.summary, true));
  line("-f -n 'test (count (commandline -opc)) -eq 1' -a '(__heapprof_recordings)' -d 'Report this recording'");
  for (const CommandHelp& group : all)
    for (const CommandHelp& one : group.subcommands)
      for (const auto& [words, count] : {std::pair{group.name, "2"}, std::pair{"help " + group.name, "3"}})
        line("-f -n '__heapprof_on " + words + "; and test (count (commandline -opc)) -eq " + count + "' -a " +
             in_quotes(last_word(one.name), true) + " -d " + in_quotes(one.summary, true));
  for (const CommandHelp& command : runnable(all)) {
    const std::string on = "-n '__heapprof_on " + command.name + "' ";
    for (const OptionHelp& option : command.options) {
      std::string rest = on;
      for (const std::string& name : option.names)
        rest += name.compare(0, 2, "--") == 0 ? "-l " + name.substr(2) + " " : "-s " + name.substr(1) + " ";
      if (option.needs_value()) {
        if (option.takes_path()) rest += "-r -F ";
        else if (!option.choices.empty()) rest += "-x -a " + in_quotes(join(option.choices, " "), true) + " ";
        else rest += "-x ";
      }
      line(rest + "-d " + in_quotes(brief(option.help), true));
    }
    if (word_follows_file(command)) {
      const std::string operands = "-f -n '__heapprof_on " + command.name + "; and test (__heapprof_operands " +
                                   command.instead_of_file + " " + join(options_with_value(command), " ") + ") ";
      line(operands + "-eq 1' -a " + in_quotes(join(command.words, " "), true));
      line(operands + "-gt 1'");
    } else if (command.name == "help") {
      line("-f -n '__heapprof_on help; and test (count (commandline -opc)) -eq 2' -a " +
           in_quotes(join(command.words, " "), true));
      line("-f -n '__heapprof_on help; and test (count (commandline -opc)) -gt 2'");
    } else if (!command.words.empty()) {
      line("-f " + on + "-a " + in_quotes(join(command.words, " "), true));
    }
    if (command.runs_program) line("-f " + on + "-a '(__fish_complete_subcommand --fcs-skip=2)'");
  }
  return text;
}

int run_completions(const CompletionsOptions& options) {
  const std::vector<CommandHelp> commands = describe_commands();
  return print_text(options.shell == "bash"  ? bash_completions(commands)
                    : options.shell == "zsh" ? zsh_completions(commands)
                                             : fish_completions(commands));
}

}  // namespace heapprof::cli
