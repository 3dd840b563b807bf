#include "analyzer/symbols/shorten.h"

#include <catch2/catch.hpp>
#include <string>

using heapprof::symbols::shorten;

TEST_CASE("the contents of brackets are removed from long names") {
  const std::string inner = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
  CHECK(shorten("std::vector<" + inner + ", std::allocator<" + inner + " > >::push_back(" + inner + " const&)") ==
        "std::vector<...>::push_back(...)");
  CHECK(shorten("void space::(anonymous namespace)::Box<" + inner + ">::operator()(" + inner + ", int) const") ==
        "void space::(anonymous namespace)::Box<...>::operator()(...) const");
  CHECK(shorten("std::basic_ostream<char>& std::operator<< <std::char_traits<char> >(std::basic_ostream<char>&, "
                "int)") == "std::basic_ostream<...>& std::operator<< <...>(...)");
  CHECK(shorten("bool space::operator><" + inner + ">(" + inner + " const&, " + inner + " const&)") ==
        "bool space::operator><...>(...)");
  CHECK(shorten("Iterator<" + inner + ">::operator->() const [clone .isra.0] and some more text") ==
        "Iterator<...>::operator->() const [clone .isra.0] and some more text");
  CHECK(shorten("<alloc::vec::Vec<alloc::string::String> as core::iter::traits::collect::Extend<&str>>::extend") ==
        "<alloc::vec::Vec<...> as core::iter::traits::collect::Extend<...>>::extend");
  CHECK(shorten("core::ops::function::FnOnce::call_once::<fn(&str, usize) -> alloc::string::String, (usize,)>") ==
        "core::ops::function::FnOnce::call_once::<...>");
  CHECK(shorten("work(int, " + inner + ")::{lambda(" + inner + ")#1}::operator()(" + inner + ") const") ==
        "work(...)::{lambda(...)#1}::operator()(...) const");
  // Short names, and text that is not a demangled name, are returned unchanged.
  for (const std::string& name :
       {std::string("std::vector<int>::push_back(int)"),
        "broken<" + inner + "<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<<", std::string(100, ')'), std::string(100, 'x'),
        std::string(5000, '<') + std::string(5000, '>') + ">"})
    CHECK(shorten(name) == name);
}
