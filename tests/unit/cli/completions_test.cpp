// heapprof completions: a script for each shell, with all commands and options.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"

using namespace heapprof::test;

TEST_CASE("every shell's script has the commands, options and their values") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    INFO(shell);
    const Outcome script = run({"completions", shell});
    CHECK(script.status == 0);
    CHECK(script.err == "");
    for (const char* command :
         {"record", "info",     "report",         "leaks",       "histogram", "churn",      "reallocs", "threads",
          "frees",  "timeline", "flamegraph",     "export",      "check",     "diff",       "compact",  "bundle",
          "index",  "control",  "install-secure", "completions", "manual",    "speedscope", "pins",     "rss"}) {
      INFO(command);
      CHECK(script.out.find(command) != std::string::npos);
    }
    const bool fish = std::string(shell) == "fish";
    for (const std::string option : {"max-leaked-blocks", "live-at", "suppressions", "max-depth"}) {
      INFO(option);
      CHECK(script.out.find((fish ? "-l " : "--") + option) != std::string::npos);
    }
    CHECK(script.out.find("growth bytes blocks age") != std::string::npos);  // values of leaks --sort
    CHECK(script.out.find("pause resume mark snapshot status") != std::string::npos);
  }
}

TEST_CASE("every shell offers the formats after export") {
  CHECK(run({"completions", "bash"}).has_line({"compgen -W", "heaptrack pprof speedscope", "cur"}));
  CHECK(run({"completions", "zsh"}).has_line({"'speedscope:"}));
  CHECK(run({"completions", "fish"}).has_line({"__heapprof_on export;", "-a 'speedscope'"}));
}

TEST_CASE("completions needs a supported shell") {
  CHECK(run({"completions", "tcsh"}).status == 2);
  CHECK(run({"completions"}).status == 2);
}
