#include "analyzer/render/text.h"

#include <catch2/catch.hpp>

using namespace heapprof::render;

namespace {
const std::string kBad = "\xef\xbf\xbd";
}

TEST_CASE("clean text stays as it is") {
  for (const std::string text :
       {"", "main", "std::vector<int>", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x94\xa5", "\xf4\x8f\xbf\xbf"})
    CHECK(clean_utf8(text) == text);
}

TEST_CASE("what is no UTF-8 becomes a replacement character, byte by byte") {
  CHECK(clean_utf8("a\xff" "b") == "a" + kBad + "b");
  CHECK(clean_utf8("\xc3") == kBad);                          // cut short
  CHECK(clean_utf8("\xe2\x82") == kBad + kBad);
  CHECK(clean_utf8("\xc0\xaf") == kBad + kBad);               // overlong /
  CHECK(clean_utf8("\xe0\x80\x80") == kBad + kBad + kBad);    // overlong
  CHECK(clean_utf8("\xed\xa0\x80") == kBad + kBad + kBad);    // surrogate
  CHECK(clean_utf8("\xf4\x90\x80\x80") == kBad + kBad + kBad + kBad);  // beyond U+10FFFF
  CHECK(clean_utf8("\x80") == kBad);
  CHECK(clean_utf8("\xc3\x28") == kBad + "(");                // the second byte starts anew
}

TEST_CASE("control characters and what XML forbids are replaced too") {
  CHECK(clean_utf8(std::string("\0", 1)) == kBad);
  CHECK(clean_utf8("a\nb\tc\x1b[31m\x7f") == "a" + kBad + "b" + kBad + "c" + kBad + "[31m" + kBad);
  CHECK(clean_utf8("\xc2\x85\xc2\x9b") == kBad + kBad);  // C1
  CHECK(clean_utf8("\xc2\xa0") == "\xc2\xa0");
  CHECK(clean_utf8("\xef\xbf\xbe\xef\xbf\xbf") == kBad + kBad);
}

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

TEST_CASE("clipping counts characters, not bytes") {
  CHECK(clip_utf8("abc", 3) == "abc");
  CHECK(clip_utf8("abcd", 3) == "ab\xe2\x80\xa6");
  CHECK(clip_utf8("\xc3\xbc\xc3\xbc\xc3\xbc", 2) == "\xc3\xbc\xe2\x80\xa6");
  CHECK(clip_utf8("abc", 0).empty());
  CHECK(clip_utf8("ab", 1) == "\xe2\x80\xa6");
  CHECK(length_utf8("\xc3\xbc\xe2\x82\xac") == 2);
}

TEST_CASE("short names lose arguments, not meaning") {
  const auto e = std::string("<\xe2\x80\xa6>");
  CHECK(short_name("main") == "main");
  CHECK(short_name("f(int, char const*)") == "f()");
  CHECK(short_name("std::vector<std::pair<int, long>, A>::push_back(int&&)") == "std::vector" + e + "::push_back()");
  CHECK(short_name("(anonymous namespace)::g(void (*)(int))") == "(anonymous namespace)::g()");
  CHECK(short_name("A::operator()(int) const") == "A::operator()() const");
  CHECK(short_name("operator<< <char>(std::ostream&)") == "operator<< " + e + "()");
  CHECK(short_name("X::operator->()") == "X::operator->()");
  CHECK(short_name("operator new(unsigned long)") == "operator new()");
  CHECK(short_name("my_operator<int>(int)") == "my_operator" + e + "()");
  CHECK(short_name("f(int)::{lambda(char)#1}::operator()(char) const") == "f()::{lambda()#1}::operator()() const");
  CHECK(short_name("<alloc::vec::Vec<T> as core::ops::Drop>::drop") ==
        "<alloc::vec::Vec<T> as core::ops::Drop>::drop");
  CHECK(short_name("broken<int") == "broken<int");
  CHECK(short_name("broken)int(") == "broken)int(");
  CHECK(short_name("").empty());
}

TEST_CASE("in little room a name loses its outer scopes, then its end") {
  CHECK(fit_name("a::b::function()", 16) == "a::b::function()");
  CHECK(fit_name("a::b::function()", 13) == "b::function()");
  CHECK(fit_name("a::b::function()", 12) == "function()");
  CHECK(fit_name("a::b::function()", 5) == "func\xe2\x80\xa6");
  CHECK(fit_name("<A as b::C>::drop", 8) == "drop");
  CHECK(fit_name("(anonymous namespace)::g()", 10) == "g()");
  CHECK(fit_name("plain", 3) == "pl\xe2\x80\xa6");
  CHECK(fit_name("a::", 1) == "\xe2\x80\xa6");
}

TEST_CASE("Of a path in little room the end is kept") {
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 29) == "/usr/src/redis/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 28) == "\xe2\x80\xa6/src/redis/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 16) == "\xe2\x80\xa6/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 15) == "listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 9) == "listpack\xe2\x80\xa6");
  CHECK(fit_path("called from main", 8) == "called \xe2\x80\xa6");
  CHECK(fit_path("/\xc3\xbc\xc3\xbc/\xc3\xbc", 3) == "\xe2\x80\xa6/\xc3\xbc");
  CHECK(fit_path("", 3).empty());
}
