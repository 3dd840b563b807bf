// The page with answers, as `heapprof html` writes it.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

#include "analyzer/serve/page.h"
#include "tests/support/page_answers.h"

using heapprof::serve::page_with_answers;
using heapprof::test::answers_in;

TEST_CASE("no text of the answers ends their element") {
  CHECK(answers_in(page_with_answers(R"({"name":"a<b></script><!--"})")) ==
        R"({"name":"a\u003cb>\u003c/script>\u003c!--"})");
  CHECK(answers_in(page_with_answers("{}")) == "{}");
}

TEST_CASE("names with millions of template arguments are written in one pass") {
  // A pass for each of them would not end within the time that a test has.
  constexpr std::size_t kCount = 3'000'000;
  const std::string answers = answers_in(page_with_answers("[\"" + std::string(kCount, '<') + "\"]"));
  CHECK(answers.size() == 6 * kCount + 4);
  CHECK(static_cast<std::size_t>(std::count(answers.begin(), answers.end(), '\\')) == kCount);
}
