// The white space that compact_json() removes, compared with what the JSON library writes without it.
#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "analyzer/serve/compact_json.h"

using heapprof::serve::compact_json;

namespace {

std::string compacted(std::string text) {
  compact_json(text);
  return text;
}

}  // namespace

TEST_CASE("white space between tokens is removed, and kept in strings") {
  CHECK(compacted("{\n  \"a b\": [ 1,\t2 ],\r\n  \"c\": \" \\\" \\\\\"\n}\n") == R"({"a b":[1,2],"c":" \" \\"})"
                                                                                 "\n");
  CHECK(compacted("") == "");
  CHECK(compacted(" \n") == "\n");
  CHECK(compacted("\"no end  \\") == "\"no end  \\");
  CHECK(compacted("[1]") == "[1]");
}

TEST_CASE("a document that arrives in pieces is compacted as a whole one") {
  const std::string text = "{ \"a \\\" b\\\\\" : [ 1,\n 2 ] }\n";
  for (std::size_t first = 0; first <= text.size(); ++first)
    for (std::size_t second = first; second <= text.size(); ++second) {
      heapprof::serve::JsonCompactor compactor;
      std::string result;
      compactor.append(text.substr(0, first), result);
      compactor.append(text.substr(first, second - first), result);
      compactor.append(text.substr(second), result);
      REQUIRE(result + "\n" == compacted(text));
    }
}

TEST_CASE("the result is what the library writes") {
  nlohmann::ordered_json json;
  const std::string names[] = {"operator\" \"",  "back\\slash \\\\", "tab\t line\n",
                               "\xc3\xa9 {[ ]}", "\x01 \x7f",        ""};
  for (const std::string& name : names) json["list"].push_back({{name, name}, {"n", 1.5}, {"null", nullptr}});
  CHECK(compacted(json.dump(2) + "\n") == json.dump() + "\n");
  CHECK(compacted(json.dump(7)) == json.dump());
}
