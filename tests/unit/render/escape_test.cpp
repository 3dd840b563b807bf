#include "analyzer/render/escape.h"

#include <catch2/catch.hpp>

using namespace heapprof::render;

TEST_CASE("escapes") {
  CHECK(xml("a<b>&\"c'") == "a&lt;b&gt;&amp;&quot;c&#39;");
  std::string json;
  append_script_json(json, "]]></script>\"\\&");
  CHECK(json == R"("]]\u003e\u003c/script\u003e\"\\\u0026")");
  std::string csv;
  append_csv(csv, "plain");
  csv += ',';
  append_csv(csv, "a,b \"c\"");
  CHECK(csv == "plain,\"a,b \"\"c\"\"\"");
}
