// heapprof: one program, a command each for recording and for every question. This file only lists the
// commands; each lives in cli/ and registers its options, its help and what runs.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "analyzer/cli/options/command_help.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/help/first_screen.h"
#include "analyzer/cli/help/help_text.h"
#include "analyzer/cli/commands/install_secure.h"
#include "analyzer/cli/options/newest_trace.h"
#include "analyzer/cli/options/option_values.h"
#include "analyzer/cli/commands/trace_command.h"

namespace {

using namespace heapprof;

/// Whether `word`, in the place of a command, is a file to report on. A command's name comes first: a file of that
/// name is ./report.
bool names_file(const CLI::App& app, const std::string& word) {
  if (word.empty() || word.front() == '-') return false;
  for (const auto& [command, summary] : cli::first_words(app))
    if (word == command) return false;
  std::error_code ignored;
  return word.find('/') != std::string::npos || cli::named_as_trace(word) ||
         std::filesystem::is_regular_file(word, ignored);
}

/// The option that a word gives an empty value to (--thread=); the parser would take the next word as the value.
std::string option_with_empty_value(const CLI::App& app, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (!word.starts_with("--") || word.find('=') != word.size() - 1) continue;
    const std::string name = word.substr(0, word.size() - 1);
    for (const cli::CommandHelp& command : cli::describe_commands(app))
      for (const launch::OptionHelp& option : command.options)
        if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) return name;
  }
  return {};
}

bool is_program(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0 && !cli::is_trace(path);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words;
  if (argc > 1) words.assign(argv + 1, argv + argc);
  if (words.empty()) {
    const std::string text = cli::first_screen();
    return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 1;
  }
  if (words.front() == "record") return cli::record({words.begin() + 1, words.end()});

  CLI::App app{"heapprof tells where a program's memory went.", "heapprof"};
  cli::lay_out_help(app);
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", HEAPPROF_VERSION);

  int status = 0;
  cli::add_record(app, status);
  cli::add_info(app, status);
  cli::add_report(app, status);
  cli::add_leaks(app, status);
  cli::add_histogram(app, status);
  cli::add_churn(app, status);
  cli::add_reallocs(app, status);
  cli::add_threads(app, status);
  cli::add_frees(app, status);
  cli::add_timeline(app, status);
  cli::add_flamegraph(app, status);
  cli::add_export(app, status);
  cli::add_check(app, status);
  cli::add_diff(app, status);
  cli::add_compact(app, status);
  cli::add_bundle(app, status);
  cli::add_index(app, status);
  cli::add_control(app, status);
  cli::add_install_secure(app, status);
  cli::add_completions(app, status);
  cli::add_manual(app, status);
  cli::add_help(app, status);
  cli::refuse_empty_values(app);

  if (names_file(app, words.front())) {
    if (is_program(words.front())) {
      cli::complain(words.front() + " is a program, not a recording; to record it: heapprof record -- " +
                    words.front());
      return 2;
    }
    words.insert(words.begin(), "report");
  }
  if (const std::string option = option_with_empty_value(app, words); !option.empty()) {
    cli::complain(option + ": " + cli::kEmptyValue);
    return 2;
  }

  try {
    // The parser takes them from the end.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version; every other parse error is a wrong command line.
    return app.exit(error) == 0 ? 0 : 2;
  }
  return status;
}
