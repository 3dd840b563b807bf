// Values of options: sizes with units, and words of a list.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("a size is a whole number, alone or with a unit of 1024") {
  const KnownTrace trace;
  // The peak is 7 KiB.
  const auto status = [&](const char* size) { return run({"check", trace.path(), "--max-peak", size}).status; };
  for (const char* enough : {"7168", "7K", "7k", "7KB", "7KiB", "8K", "010K", "7 K", "1M", "1G", "1T"}) {
    INFO(enough);
    CHECK(status(enough) == 0);
  }
  for (const char* too_small : {"7167", "6K", "06K", "0"}) {
    INFO(too_small);
    CHECK(status(too_small) == 3);
  }
  for (const char* wrong : {"", "K", "7X", "7.5K", "-1", "+7168", "0x1c00", "0x1cK", "7 168", "16E", "20000000T",
                            "seven", "99999999999999999999"}) {
    INFO(wrong);
    CHECK(status(wrong) == 2);
  }
}

TEST_CASE("a number without a unit is digits only") {
  const KnownTrace trace;
  struct Number {
    std::vector<std::string> command;
    const char* option;
  };
  for (const Number& one : {Number{{"report"}, "--top"}, Number{{"report"}, "--frames"}, Number{{"leaks"}, "--top"},
                            Number{{"leaks"}, "--frames"}, Number{{"churn"}, "--top"}, Number{{"reallocs"}, "--top"},
                            Number{{"frees"}, "--top"}, Number{{"frees"}, "--frames"}, Number{{"threads"}, "--top"},
                            Number{{"timeline"}, "--sites"}, Number{{"diff", trace.path()}, "--top"},
                            Number{{"diff", trace.path()}, "--frames"}}) {
    std::vector<std::string> words = one.command;
    words.insert(words.end(), {trace.path(), one.option, ""});
    INFO(one.command.front() << ' ' << one.option);
    for (const char* wrong : {"-1", "+4", "0x10", "1.5", "4K", "99999999999999999999", "many"}) {
      INFO(wrong);
      words.back() = wrong;
      const Outcome outcome = run(words);
      CHECK(outcome.status == 2);
      CHECK(outcome.out == "");
      CHECK(outcome.err.find(std::string("'") + wrong + "'") != std::string::npos);
    }
    words.back() = "08";  // not an octal number
    CHECK(run(words).status == 0);
  }
  const TemporaryFile out;
  for (const char* wrong : {"-1", "+4", "0x10", "20", "0"})
    CHECK(run({"compact", trace.path(), "-o", out.path(), "--level", wrong}).status == 2);
  CHECK(run({"compact", trace.path(), "-o", out.path(), "--level", "19"}).status == 0);
}

TEST_CASE("the message about a word that is not in the list prints the list") {
  const KnownTrace trace;
  const Outcome outcome = run({"report", trace.path(), "--cost", "peek"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("'peek'") != std::string::npos);
  for (const char* word : {"peak", "leaked", "allocated", "allocations", "temporary", "live"})
    CHECK(outcome.err.find(word) != std::string::npos);
}

TEST_CASE("--help lists the words of an option in their order") {
  CHECK(run({"report", "--help"}).has_line({"--cost", "peak|leaked|allocated|allocations|temporary|live"}));
}
