// heapprof: one program, a command each for recording and for every question. This file only lists the
// commands; each lives in cli/ and registers its options, its help and what runs.
#include <CLI/CLI.hpp>

#include <string_view>

#include "analyzer/cli/command_help.h"
#include "analyzer/cli/commands.h"
#include "analyzer/cli/help_layout.h"
#include "analyzer/cli/install_secure.h"

int main(int argc, char** argv) {
  using namespace heapprof;
  if (argc > 1 && std::string_view(argv[1]) == "record") return cli::record({argv + 2, argv + argc});

  CLI::App app{"heapprof tells where a program's memory went.", "heapprof"};
  cli::lay_out_help(app);
  app.require_subcommand(1);
  app.set_version_flag("--version", HEAPPROF_VERSION);

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

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // 0 for --help and --version; every other parse error is a wrong command line.
    return app.exit(error) == 0 ? 0 : 2;
  }
  return status;
}
