// Names of functions as options take them.
#include "analyzer/cli/text/name_pattern.h"

#include <catch2/catch.hpp>

#include <stdexcept>

using heapprof::cli::NamePattern;

TEST_CASE("a pattern is an expression or a part of the name") {
  CHECK(NamePattern("^parse").matches("parse(char*)"));
  CHECK(NamePattern("parse(char*)").matches("parse(char*)"));
  CHECK(NamePattern("git+0x2896c0").matches("git+0x2896c0"));
  CHECK_FALSE(NamePattern("^arse").matches("parse(char*)"));
  CHECK_THROWS_AS(NamePattern("("), std::invalid_argument);
}

TEST_CASE("the names that tables print are patterns, with folded arguments and with braces") {
  const std::string method = "app::LruCache<int, std::vector<char> >::get(int const&)";
  CHECK(NamePattern("app::LruCache<…>::get").matches(method));
  CHECK(NamePattern("LruCache<…>").matches(method));
  CHECK_FALSE(NamePattern("app::LruCache<…>::put").matches(method));
  CHECK_FALSE(NamePattern("…").matches("main"));
  CHECK(NamePattern("main::{lambda}::operator()").matches("main::{lambda}::operator()"));
  CHECK(NamePattern("h::build::{{closure}}").matches("h::build::{{closure}}"));
  CHECK_FALSE(NamePattern("h::build::{{closure}}").matches("h::build"));
}
