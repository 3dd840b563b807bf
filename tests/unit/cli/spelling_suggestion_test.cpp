// The word that was probably meant.
#include <catch2/catch.hpp>

#include "analyzer/cli/options/spelling_suggestion.h"

using namespace heapprof::cli;

TEST_CASE("a word is suggested if it is similar and no other word is") {
  const std::vector<std::string> words = {"-o",     "--output",   "--top",         "--to",
                                          "--from", "--max-size", "--max-lifetime"};
  CHECK(nearest_word("--ouptut", words) == "--output");
  CHECK(nearest_word("--outpt", words) == "--output");
  CHECK(nearest_word("--max-s", words) == "--max-size");
  CHECK(nearest_word("--form", words) == "--from");
  CHECK(nearest_word("--max", words).empty());
  CHECK(nearest_word("--bogus", words).empty());
  CHECK(nearest_word("-x", words).empty());
  CHECK(nearest_word("-", words).empty());
  CHECK(nearest_word("--", words).empty());
  CHECK(nearest_word("", words).empty());
  CHECK(did_you_mean("--form", words) == "; did you mean '--from'?");
  CHECK(did_you_mean("--bogus", words).empty());
}
