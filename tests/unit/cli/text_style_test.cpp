// Colours and characters of text output.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/text_style.h"

using namespace heapprof;
using namespace heapprof::cli;

TEST_CASE("the report is ASCII if the locale is not UTF-8") {
  CHECK(plain_text("a … b", false).find_first_not_of("ab .") == std::string::npos);
  CHECK(plain_text("a … b", true) == "a … b");
}
