// Colours and characters of text output.
#include <catch2/catch.hpp>

#include <cstdlib>

#include "analyzer/cli/text/text_style.h"

using namespace heapprof;
using namespace heapprof::cli;

TEST_CASE("COLUMNS is the width of output that is no terminal, within limits") {
  const auto width_with = [](const char* columns) {
    ::setenv("COLUMNS", columns, 1);
    const std::size_t width = style_for("a file").width;
    ::unsetenv("COLUMNS");
    return width;
  };
  CHECK(width_with("80") == 80);
  CHECK(width_with("20") == 40);
  CHECK(width_with("1000") == 160);
  CHECK(width_with("") == 100);
  CHECK(width_with("wide") == 100);
}

TEST_CASE("the report is ASCII if the locale is not UTF-8") {
  CHECK(plain_text("a … b", false).find_first_not_of("ab .") == std::string::npos);
  CHECK(plain_text("a … b", true) == "a … b");
}
