#include "analyzer/render/short_names.h"

#include <catch2/catch.hpp>

using namespace heapprof::render;

TEST_CASE("short names have no arguments") {
  const auto e = std::string("<\xe2\x80\xa6>");
  CHECK(without_arguments("main") == "main");
  for (const char* of_python : {"<module>", "<lambda>", "Job.run.<locals>.<listcomp>", "(unknown Python code) +9"})
    CHECK(without_arguments(of_python) == of_python);
  CHECK(without_arguments("f(int, char const*)") == "f()");
  CHECK(without_arguments("std::vector<std::pair<int, long>, A>::push_back(int&&)") ==
        "std::vector" + e + "::push_back()");
  CHECK(without_arguments("(anonymous namespace)::g(void (*)(int))") == "(anonymous namespace)::g()");
  CHECK(without_arguments("A::operator()(int) const") == "A::operator()() const");
  CHECK(without_arguments("operator<< <char>(std::ostream&)") == "operator<< " + e + "()");
  CHECK(without_arguments("X::operator->()") == "X::operator->()");
  CHECK(without_arguments("operator new(unsigned long)") == "operator new()");
  CHECK(without_arguments("my_operator<int>(int)") == "my_operator" + e + "()");
  CHECK(without_arguments("f(int)::{lambda(char)#1}::operator()(char) const") ==
        "f()::{lambda()#1}::operator()() const");
  CHECK(without_arguments("<alloc::vec::Vec<T> as core::ops::Drop>::drop") ==
        "<alloc::vec::Vec<T> as core::ops::Drop>::drop");
  CHECK(without_arguments("broken<int") == "broken<int");
  CHECK(without_arguments("broken)int(") == "broken)int(");
  CHECK(without_arguments("").empty());
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

TEST_CASE("a path that is too long loses its outer directories") {
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 29) == "/usr/src/redis/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 28) == "\xe2\x80\xa6/src/redis/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 16) == "\xe2\x80\xa6/listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 15) == "listpack.c:855");
  CHECK(fit_path("/usr/src/redis/listpack.c:855", 9) == "listpack\xe2\x80\xa6");
  CHECK(fit_path("called from main", 8) == "called \xe2\x80\xa6");
  CHECK(fit_path("/\xc3\xbc\xc3\xbc/\xc3\xbc", 3) == "\xe2\x80\xa6/\xc3\xbc");
  CHECK(fit_path("", 3).empty());
}
