// heapprof install-secure without root. With root it would change the system.
#include <catch2/catch.hpp>

#include "tests/support/unprivileged.h"
#include "tests/unit/cli/command_run.h"

using namespace heapprof::test;

TEST_CASE("install-secure without root is refused before it does anything") {
  const Unprivileged user;
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"install-secure"},
                                                    {"install-secure", "--remove"},
                                                    {"install-secure", "--directory", "/dev/null/x"}}) {
    const Outcome outcome = run(arguments);
    CHECK(outcome.status == 1);
    CHECK(outcome.out == "");
    CHECK(outcome.err.find("root") != std::string::npos);
  }
}

TEST_CASE("install-secure has the options --directory and --remove only") {
  const Unprivileged user;
  CHECK(run({"install-secure", "--directory"}).status == 2);
  CHECK(run({"install-secure", "--force"}).status == 2);
  CHECK(run({"install-secure", "/usr/lib"}).status == 2);
  CHECK(run({"install-secure", "--help"}).out.find("/var/lib/heapprof") != std::string::npos);
}
