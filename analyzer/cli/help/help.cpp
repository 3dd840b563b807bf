// heapprof help: what --help prints, by another word that people try.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

#include "analyzer/cli/options/command_help.h"
#include "analyzer/cli/options/spelling_suggestion.h"

namespace heapprof::cli {
namespace {

std::string help_on(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* command = &app;
  std::string name = "heapprof";
  for (const std::string& word : words) {
    const CLI::App* found = nullptr;
    std::vector<std::string> all;
    for (const CLI::App* one : command->get_subcommands([](const CLI::App*) { return true; })) {
      all.push_back(one->get_name());
      if (one->get_name() == word) found = one;
    }
    if (found == nullptr)
      throw CLI::ParseError("there is no '" + name + " " + word + "'" + launch::did_you_mean(word, all),
                            CLI::ExitCodes::ValidationError);
    command = found;
    name += " " + word;
  }
  if (name == "heapprof record") return launch::usage();
  return command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
}

}  // namespace

void add_help(CLI::App& app, int& status) {
  const auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* const command = app.add_subcommand("help", "Explain a command, or list all");
  command->add_option("COMMAND", *words, "The command; without it, the list of all");
  command->callback([words, &app, &status] {
    const std::string text = help_on(app, *words);
    status = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
  });
}

}  // namespace heapprof::cli
