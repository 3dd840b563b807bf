#include "analyzer/render/short_names.h"

#include <catch2/catch.hpp>

using namespace heapprof::render;

TEST_CASE("short names have no arguments") {
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

TEST_CASE("a name that is too long loses its outer scopes, then its end") {
  CHECK(fit_name("a::b::function()", 16) == "a::b::function()");
  CHECK(fit_name("a::b::function()", 13) == "b::function()");
  CHECK(fit_name("a::b::function()", 12) == "function()");
  CHECK(fit_name("a::b::function()", 5) == "func\xe2\x80\xa6");
  CHECK(fit_name("<A as b::C>::drop", 8) == "drop");
  CHECK(fit_name("(anonymous namespace)::g()", 10) == "g()");
  CHECK(fit_name("plain", 3) == "pl\xe2\x80\xa6");
  CHECK(fit_name("a::", 1) == "\xe2\x80\xa6");
}

TEST_CASE("a path that is too long loses its outer folders") {
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 29) == "/usr/src/redis/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 28) == "\xe2\x80\xa6/src/redis/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 16) == "\xe2\x80\xa6/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 15) == "listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 9) == "listpack\xe2\x80\xa6");
  CHECK(fit_path("called from main", 8) == "called \xe2\x80\xa6");
  CHECK(fit_path("/\xc3\xbc\xc3\xbc/\xc3\xbc", 3) == "\xe2\x80\xa6/\xc3\xbc");
  CHECK(fit_path("", 3).empty());
}
