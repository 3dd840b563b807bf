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

TEST_CASE("of many names, those that contain the text are suggested, or else the nearest ones") {
  const std::vector<std::string> names = {"Cache::put", "Cache::get", "Store::put", "main", "main", "load_table"};
  CHECK(suggested_names("cache", names) == "; names that contain it: 'Cache::get', 'Cache::put'");
  CHECK(suggested_names("mian", names) == "; did you mean 'main'?");
  // Typed without its scopes; several are equally near.
  CHECK(suggested_names("load_tabel", names) == "; did you mean 'load_table'?");
  CHECK(suggested_names("putt", names) == "; did you mean 'Cache::put' or 'Store::put'?");
  CHECK(suggested_names("Cache::putt", names) == "; did you mean 'Cache::put'?");
  CHECK(suggested_names("unrelated", names).empty());
  CHECK(suggested_names("", names).empty());
  CHECK(suggested_names(std::string(1000, 'x'), names).empty());
  const std::vector<std::string> alike = {"fa", "fb", "fc", "fd"};
  CHECK(suggested_names("fxx", alike).empty());
  CHECK(suggested_names("f", {"f1", "f2", "f3", "f4", "f5", "f6"}) ==
        "; names that contain it: 'f1', 'f2', 'f3', 'f4', 'f5'");
}
