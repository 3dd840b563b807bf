#include "tests/unit/cli/wrong_command_lines.h"

#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"

namespace heapprof::test {

void check_rejected(const std::vector<std::string>& command, const std::vector<WrongCommandLine>& wrong) {
  for (const WrongCommandLine& line : wrong) {
    std::vector<std::string> words = command;
    words.insert(words.end(), line.arguments.begin(), line.arguments.end());
    CAPTURE(words);
    const Outcome outcome = run(words);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    CHECK_THAT(outcome.err, Catch::Contains(line.named));
  }
}

}  // namespace heapprof::test
