// Names without their return types, compared with what libiberty prints when it omits the type.
#include "analyzer/symbols/return_type.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <libiberty/demangle.h>

#include "analyzer/symbols/demangle.h"

using heapprof::symbols::demangle;
using heapprof::symbols::without_return_type;

namespace {

std::string demangled_by_libiberty(const std::string& name, int options) {
  const std::unique_ptr<char, void (*)(void*)> text(
      cplus_demangle_v3(name.c_str(), DMGL_PARAMS | DMGL_ANSI | options), std::free);
  return text == nullptr ? std::string() : text.get();
}

}  // namespace

TEST_CASE("return types of function templates are removed") {
  for (const auto& [printed, name] : {
           std::pair<const char*, const char*>{"void std::sort<int>(int)", "std::sort<int>(int)"},
           {"auto mine::twice<int>(int)", "mine::twice<int>(int)"},
           {"unsigned long count<Point>(Point const&)", "count<Point>(Point const&)"},
           {"int const* first<int>()", "first<int>()"},
           {"char const& S::at<int>(int) const", "S::at<int>(int) const"},
           {"std::pair<std::__detail::_Node_iterator<std::pair<int const, S>, false, false>, bool> "
            "std::_Hashtable<int, std::pair<int const, S> >::_M_emplace<int, S>(std::integral_constant<bool, true>, "
            "int&&, S&&)",
            "std::_Hashtable<int, std::pair<int const, S> >::_M_emplace<int, S>(std::integral_constant<bool, true>, "
            "int&&, S&&)"},
           {"std::enable_if<((sizeof (int))>(2)), int>::type f<int>(int)", "f<int>(int)"},
           // Return types that enclose the name: functions, arrays, members.
           {"void (*S::pick<int>(int))(char)", "S::pick<int>(int)"},
           {"void (*(*pick<int>(int))(char))(long)", "pick<int>(int)"},
           {"void (* const& pick<int>(int))(char)", "pick<int>(int)"},
           {"int (&table<int>()) [3]", "table<int>()"},
           {"int (*table<int>())[3]", "table<int>()"},
           {"int (S::*S::getter<int>())()", "S::getter<int>()"},
           {"int (std::map<int, (anonymous namespace)::S>::*(anonymous namespace)::getter<int>())()",
            "(anonymous namespace)::getter<int>()"},
           {"int S::* S::member<int>()", "S::member<int>()"},
           {"int S::*member<int>()", "member<int>()"},
           // Return types that are expressions, or local to a function.
           {"decltype (auto) forward<int>(int)", "forward<int>(int)"},
           {"decltype ({parm#1}+{parm#2}) add<int, int>(int, int)", "add<int, int>(int, int)"},
           {"decltype(({parm#1})<(2)) less<int>(int)", "less<int>(int)"},
           {"decltype ((operator<<)({parm#1}, 2))& out<S>(S&)", "out<S>(S&)"},
           {"make(int)::{lambda()#1} wrap<make(int)::{lambda()#1}>(make(int)::{lambda()#1}&&)",
            "wrap<make(int)::{lambda()#1}>(make(int)::{lambda()#1}&&)"},
           {"S::operator()(int) const::Local wrap<int>(int)", "wrap<int>(int)"},
           {"(anonymous namespace)::S (anonymous namespace)::make<int>()", "(anonymous namespace)::make<int>()"},
           // Operators.
           {"bool S::operator< <int>(int) const", "S::operator< <int>(int) const"},
           {"S& S::operator<< <int>(int)", "S::operator<< <int>(int)"},
           {"bool operator><int>(S<int>, int)", "operator><int>(S<int>, int)"},
           {"int* S::operator-><int>()", "S::operator-><int>()"},
           {"auto S::operator<=><int>(int)", "S::operator<=><int>(int)"},
           {"std::vector<int, std::allocator<int> > S::operator()<int>(int) const", "S::operator()<int>(int) const"},
           {"S& S::operator[]<int>(int)", "S::operator[]<int>(int)"},
           {"long operator\"\" _km<(char)49, (char)50>()", "operator\"\" _km<(char)49, (char)50>()"},
           {"auto run<int>(int)::{lambda(auto:1)#1}::operator()<char>(char) const",
            "run<int>(int)::{lambda(auto:1)#1}::operator()<char>(char) const"},
           {"std::basic_ostream<char, std::char_traits<char> >& std::operator<< <std::char_traits<char> "
            ">(std::basic_ostream<char, std::char_traits<char> >&, char const*)",
            "std::operator<< <std::char_traits<char> >(std::basic_ostream<char, std::char_traits<char> >&, char "
            "const*)"},
           // ABI tags and clones.
           {"std::__cxx11::basic_string<char> text[abi:cxx11]<int>(int)", "text[abi:cxx11]<int>(int)"},
           {"void S::grow<int>(int) [clone .isra.0]", "S::grow<int>(int) [clone .isra.0]"},
       }) {
    CHECK(without_return_type(printed) == name);
    CHECK(without_return_type(name) == name);
  }
}

TEST_CASE("names without a return type are returned unchanged") {
  for (const char* name :
       {"", "main", "malloc", "operator new(unsigned long)", "operator delete[](void*, unsigned long)",
        "std::vector<int, std::allocator<int> >::push_back(int&&)", "S::operator int() const",
        "S::operator unsigned long() const", "S::operator void (*)(int)() const", "S::operator int*<int>() const",
        "S::operator std::vector<int, std::allocator<int> >()", "operator\"\" _km(long double)", "S::~S()",
        "main::{lambda()#1}::operator()() const", "f<int>()::{lambda()#1}::operator()() const",
        "S::run() const::{lambda(int)#2}::operator()(int) const", "S::run() &&::{lambda()#1}::_FUN()",
        "(anonymous namespace)::run(int)", "(anonymous namespace)::S::run() const", "foo() [clone .cold]",
        "vtable for Cache", "guard variable for make(int)::cache", "non-virtual thunk to S::run(int)",
        "virtual thunk to S::run()", "TLS init function for state", "[tail of putenv, setenv]",
        // Rust, both mangling schemes.
        "alloc::vec::Vec<T,A>::push", "<alloc::vec::Vec<T,A> as core::clone::Clone>::clone",
        "<&mut I as core::iter::traits::iterator::Iterator>::next", "<dyn core::any::Any>::is::<u8>",
        "core::ops::function::FnOnce::call_once{{vtable.shim}}", "crate::main::{closure#0}",
        "<fn(i32) -> u8 as mine::Call>::call", "core::ptr::drop_in_place::<(u8, [u16; 3])>",
        "alloc::str::<impl alloc::borrow::ToOwned for str>::to_owned",
        // Other languages and demanglers, and malformed names.
        "main.(*Table).Grow", "net/http.(*conn).serve", "foo::'lambda'(int)::operator()(int) const", "f(", "f<", "f)",
        "a > b", "a (b) c(", "(", ")", "<", ">", "operator", "operator<", "operator(", " ", " (", " (*", " (*)",
        "::*", "(*", "decltype", "decltype (", "decltype(x)"})
    CHECK(without_return_type(name) == name);
}

TEST_CASE("every function of this program has the name that libiberty prints without return types") {
  std::FILE* const nm = popen("nm /proc/$PPID/exe", "r");
  REQUIRE(nm != nullptr);
  char line[65'536];
  std::size_t templates = 0;
  std::size_t names = 0;
  while (std::fgets(line, sizeof line, nm) != nullptr) {
    char symbol[60'000];
    char kind = ' ';
    if (std::sscanf(line, "%*s %c %59999s", &kind, symbol) != 2) continue;
    if (std::string(symbol).substr(0, 2) != "_Z") continue;
    if (std::string("TtWwi").find(kind) == std::string::npos) continue;  // data: libiberty would omit its type
    const std::string whole = demangle(symbol);
    const std::string expected = demangled_by_libiberty(symbol, DMGL_RET_DROP);
    if (expected.empty()) continue;
    INFO(symbol);
    CHECK(without_return_type(whole) == expected);
    ++names;
    templates += whole != expected;
  }
  CHECK(pclose(nm) == 0);
  CHECK(names > 1000);
  CHECK(templates > 100);
}

TEST_CASE("long and deep names take little time and stack") {
  std::string deep, wide;
  for (int i = 0; i < 16'000; ++i) deep += "v (*";
  for (int i = 0; i < 16'000; ++i) wide += "v (x)";
  for (const std::string& name : {deep, wide, std::string(65'000, '('), std::string(65'000, '<')})
    CHECK(without_return_type(name).size() <= name.size());
}
