// Declares the commands under "Help".
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/cli/command_line/choose_command.h"
#include "analyzer/cli/command_line/command_declarations.h"
#include "analyzer/cli/command_line/option_kinds.h"
#include "analyzer/cli/command_line/shared_options.h"
#include "analyzer/cli/options/command_options.h"

namespace heapprof::cli {
namespace {

constexpr const char* kHelp = "Help";

}  // namespace

void declare_help(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<HelpOptions>();
  CLI::App& command = add_command(app, kHelp, "help", "Explain a command, or list all commands");
  command
      .add_option(
          "COMMAND",
          [options](const CLI::results_t& words) {
            for (const std::string& word : words) options->command += (options->command.empty() ? "" : " ") + word;
            return true;
          },
          "Explain this command (report, export csv); by default, list all")
      ->type_name("COMMAND")
      ->expected(2)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  choose(command, chosen, options);
}

void declare_manual(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<ManualOptions>();
  CLI::App& command = add_command(app, kHelp, "manual", "Print a manual page, for man -l");
  add_text(command, "PAGE", options->page, "PAGE", "Print the page of this command; by default, the overview");
  add_text(command, "--directory", options->directory, "DIRECTORY", "Write all pages to DIRECTORY instead");
  add_switch(command, "--list", options->list, "Print the names of all pages");
  // Hidden, for developers: its output is docs/reference.md.
  add_switch(command, "--markdown", options->markdown, "Print the reference of all commands")->group("");
  choose(command, chosen, options);
}

void declare_completions(CLI::App& app, Chosen& chosen) {
  const auto options = std::make_shared<CompletionsOptions>();
  CLI::App& command = add_command(app, kHelp, "completions", "Print a completion script for a shell");
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  add_choice(command, "SHELL", shells, 0, "Print the script for this shell: bash, zsh or fish",
             [options, shells](std::size_t position) { options->shell = shells[position]; })
      ->default_str("")
      ->required();
  command.footer(
      "heapprof completions bash >~/.local/share/bash-completion/completions/heapprof\n"
      "heapprof completions zsh >DIRECTORY/_heapprof, where DIRECTORY is in fpath\n"
      "heapprof completions fish >~/.config/fish/completions/heapprof.fish");
  choose(command, chosen, options);
}

}  // namespace heapprof::cli
