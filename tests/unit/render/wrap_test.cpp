#include "analyzer/render/wrap.h"

#include <catch2/catch.hpp>

using heapprof::render::wrapped;
using Lines = std::vector<std::string>;

TEST_CASE("lines break at blanks") {
  CHECK(wrapped("", 5) == Lines{""});
  CHECK(wrapped("one two three", 7) == Lines{"one two", "three"});
  CHECK(wrapped("one two three", 6) == Lines{"one", "two", "three"});
  CHECK(wrapped("a\nb  c", 9) == Lines{"a", "b c"});
  CHECK(wrapped("an-incompressible word", 4) == Lines{"an-incompressible", "word"});
  CHECK(wrapped("\u00fc\u00fc \u00fc\u00fc", 5) == Lines{"\u00fc\u00fc \u00fc\u00fc"});  // columns, not bytes
}
