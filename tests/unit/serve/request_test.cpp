// Targets and cookies of requests: what is decoded, and what is refused.
#include <catch2/catch.hpp>

#include "analyzer/serve/request.h"

using namespace heapprof::serve;

TEST_CASE("the path and the parameters of a target are decoded") {
  const auto target =
      parse_target("/api/report?function=std%3A%3Avec%2B%2B&from=10%25&only-own=1&empty=&flag&a+b=c+d");
  REQUIRE(target);
  CHECK(target->path == "/api/report");
  REQUIRE(target->parameters.size() == 6);
  CHECK(*find(target->parameters, "function") == "std::vec++");
  CHECK(*find(target->parameters, "from") == "10%");
  CHECK(find(target->parameters, "empty")->empty());
  CHECK(find(target->parameters, "flag")->empty());
  CHECK(*find(target->parameters, "a b") == "c d");
  CHECK(find(target->parameters, "none") == nullptr);
}

TEST_CASE("a repeated parameter is kept each time, in order, and an equals sign belongs to the value") {
  const auto target = parse_target("/?x=1&&x=2=3#x=4");
  REQUIRE(target);
  REQUIRE(target->parameters.size() == 2);
  CHECK(target->parameters[0].value == "1");
  CHECK(target->parameters[1].value == "2=3");
}

TEST_CASE("a plus sign in a path is no space") { CHECK(parse_target("/a+b")->path == "/a+b"); }

TEST_CASE("wrong targets are refused") {
  for (const char* const wrong : {"", "api", "http://host/", "*", "/%", "/%4", "/%zz", "/a?b=%", "/a?b=%0", "/%00",
                                  "/%0a", "/a?b=%0d%0aSet-Cookie:x", "/a?b%00=1", "/a?%7f", "/\x01"})
    CHECK_FALSE(parse_target(wrong));
}

TEST_CASE("a cookie is found among others, by its whole name") {
  CHECK(cookie_value("a=1; heapprof_80=secret; b=2", "heapprof_80") == "secret");
  CHECK(cookie_value("heapprof_8080=wrong", "heapprof_80").empty());
  CHECK(cookie_value("xheapprof_80=wrong;heapprof_80=right", "heapprof_80") == "right");
  CHECK(cookie_value("", "heapprof_80").empty());
  CHECK(cookie_value("; ;=;heapprof_80", "heapprof_80").empty());
}
