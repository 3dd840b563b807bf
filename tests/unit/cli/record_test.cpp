// heapprof record without running a program: options and invalid command lines. tests/e2e records programs.
#include <catch2/catch.hpp>

#include <cstdlib>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/wrong_command_lines.h"

using namespace heapprof::test;

TEST_CASE("record --help lists the options and exit statuses") {
  for (const char* option : {"--help", "-h"}) {
    const Outcome help = run({"record", option});
    CHECK(help.status == 0);
    CHECK(help.err == "");
    for (const char* text : {"--output", "--max-depth", "--free-stacks", "--children", "125", "126", "127"})
      CHECK(help.out.find(text) != std::string::npos);
  }
}

TEST_CASE("record rejects a wrong command line with exit status 2 and names the error") {
  check_rejected({"record"}, {{{}, "PROGRAM"},
                              {{"--"}, "PROGRAM"},
                              {{""}, "empty"},
                              {{"--max-dept", "3", "true"}, "--max-depth"},
                              {{"-x", "true"}, "-x"},
                              {{"--max-depth", "0", "true"}, "--max-depth"},
                              {{"--max-depth=65537", "true"}, "65537"},
                              {{"--max-file-size", "1X", "true"}, "1X"},
                              {{"--log", "loud", "true"}, "loud"},
                              {{"--mmap", "perhaps", "true"}, "perhaps"},
                              {{"--quiet=yes", "true"}, "--quiet"},
                              {{"-o"}, "-o"},
                              {{"-o", "-", "true"}, "invalid value '-' for --output"}});
}

TEST_CASE("record rejects a variable whose value the recorder would reject") {
  // run() unsets variables that a user may have set, but not this one.
  ::setenv("HEAPPROF_FREE_STACKS", "perhaps", 1);
  const Outcome outcome = run({"record", "true"});
  ::unsetenv("HEAPPROF_FREE_STACKS");
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("'perhaps' for the environment variable HEAPPROF_FREE_STACKS") != std::string::npos);
}

TEST_CASE("record rejects labels that take too much room together") {
  const std::string half(600, 'x');
  ::setenv("HEAPPROF_LABELS", ("a=" + half).c_str(), 1);
  const Outcome outcome = run({"record", "--label", "b=" + half, "true"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("the labels take 1205 bytes of at most 1024") != std::string::npos);
  CHECK(run({"record", "--label", "a=" + half, "true"}).status == 125);  // the option replaces the variable's
  ::setenv("HEAPPROF_LABELS", "nonsense", 1);
  CHECK(run({"record", "true"}).err.find("'nonsense' for the environment variable HEAPPROF_LABELS; expected KEY=") !=
        std::string::npos);
  ::unsetenv("HEAPPROF_LABELS");
}

TEST_CASE("record without a recorder library fails with exit status 125") {
  const Outcome outcome = run({"record", "true"});
  CHECK(outcome.status == 125);
  CHECK(outcome.out == "");
  CHECK(outcome.err.find("libheapprof.so") != std::string::npos);
}
