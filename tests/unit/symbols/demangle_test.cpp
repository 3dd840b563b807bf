#include "analyzer/symbols/demangle.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <string>

using heapprof::symbols::demangle;

TEST_CASE("demangled C++ names have their parameters") {
  CHECK(demangle("_Znwm") == "operator new(unsigned long)");
  CHECK(demangle("_ZnamSt11align_val_tRKSt9nothrow_t") ==
        "operator new[](unsigned long, std::align_val_t, std::nothrow_t const&)");
  CHECK(demangle("_ZNSt6vectorIiSaIiEE9push_backEOi") == "std::vector<int, std::allocator<int> >::push_back(int&&)");
  CHECK(demangle("_ZZ4mainENKUlvE_clEv") == "main::{lambda()#1}::operator()() const");
  CHECK(demangle("_ZN12_GLOBAL__N_13fooEv") == "(anonymous namespace)::foo()");
  CHECK(demangle("_Z3foov.cold") == "foo() [clone .cold]");
}

TEST_CASE("demangled Rust names have no hash") {
  // Legacy mangling: a C++ name whose last component is a hash.
  CHECK(demangle("_ZN4core3fmt5Write9write_str17h0123456789abcdefE") == "core::fmt::Write::write_str");
  CHECK(demangle("_ZN67_$LT$alloc..vec..Vec$LT$T$C$A$GT$$u20$as$u20$core..clone..Clone$GT$"
                 "5clone17h0123456789abcdefE") == "<alloc::vec::Vec<T,A> as core::clone::Clone>::clone");
  CHECK(demangle("_ZN4core3fmt5Write9write_str17h0123456789abcdefE.llvm.1234567890") ==
        "core::fmt::Write::write_str");
  // v0.
  CHECK(demangle("_RNvC6_123foo3bar") == "123foo::bar");
  CHECK(demangle("_RNvMs0_NtCs5l0EXMQXRMU_21rustc_data_structures17obligation_forest"
                 "INtB5_16ObligationForestNtCs6d3BeZFqJ3u_4test4TestE22register_obligation_at")
            .find("register_obligation_at") != std::string::npos);
  CHECK(demangle("_RNCNvC5crate4main0") == "crate::main::{closure#0}");
}

TEST_CASE("a name that is not mangled is returned unchanged") {
  for (const char* name :
       {"main", "malloc", "", "_", "_start", "__libc_malloc", "Zebra", "_Zebra", "_Rust", "_Z", "_R"})
    CHECK(demangle(name) == name);
  CHECK(demangle(std::string("main\0tail", 9)) == std::string("main\0tail", 9));
}

namespace {

std::string base_n(std::size_t value, const std::string& digits) {
  std::string text;
  do text = digits[value % digits.size()] + text;
  while ((value /= digits.size()) != 0);
  return text;
}

/// "_" for 0, "0_" for 1, "1_" for 2, and so on: both manglings refer so to earlier components.
std::string reference(std::size_t number, const std::string& digits) {
  return (number == 0 ? "" : base_n(number - 1, digits)) + "_";
}

constexpr const char* kDigits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr const char* kRustDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// f(a<int, int>, a<a<int, int>, a<int, int> >, ...): each parameter contains the previous one twice.
std::string doubling_cxx_name(std::size_t parameters) {
  std::string name = "_Z1f1aIiiE";
  for (std::size_t i = 0; i < parameters; ++i) {
    const std::string previous = "S" + reference(i + 1, kDigits);
    name += "S_I" + previous + previous + "E";
  }
  return name;
}

/// a::b::<(u8, u8), ((u8, u8), (u8, u8)), ...>
std::string doubling_rust_name(std::size_t parameters) {
  std::string name = "_RINvC1a1bThhE";
  for (std::size_t i = 0, previous = name.size() - 6; i < parameters; ++i) {
    const std::string back = "B" + reference(previous, kRustDigits);  // counted from after "_R"
    previous = name.size() - 2;
    name += "T" + back + back + "E";
  }
  return name + "E";
}

}  // namespace

TEST_CASE("a short name that expands to an enormous one is returned unchanged, quickly") {
  CHECK(demangle(doubling_cxx_name(1)) == "f(a<int, int>, a<a<int, int>, a<int, int> >)");
  CHECK(demangle(doubling_rust_name(1)) == "a::b::<(u8, u8), ((u8, u8), (u8, u8))>");
  CHECK(demangle(doubling_cxx_name(8)).size() > 5000);
  for (const std::string& name : {doubling_cxx_name(60), doubling_rust_name(60)}) {
    const std::clock_t start = std::clock();  // processor time
    CHECK(demangle(name) == name);
    CHECK(std::clock() - start < 2 * CLOCKS_PER_SEC);
  }
}

namespace {

std::string repeated(std::size_t times, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("a C++ name of several KB is demangled, one of more than 8 KiB is not") {
  const auto nested = [](std::size_t scopes) { return "_ZN" + repeated(scopes, "5scope") + "1fEv"; };
  REQUIRE(nested(210).size() == 1267);
  CHECK(demangle(nested(210)) == repeated(210, "scope::") + "f()");
  CHECK(demangle(nested(900)) == repeated(900, "scope::") + "f()");
  CHECK(demangle(nested(1400)) == nested(1400));
}

TEST_CASE("a long name that needs much of the stack does not end the program") {
  // 1,200 references to template parameters and 720 templates: 14 MB.
  const std::string pairs =
      "_Z1fIiEv" + repeated(100, "Fv" + repeated(12, "RT_") + "E") + repeated(90, "Fv" + repeated(8, "1aIiE") + "E");
  const std::string demangled = demangle(pairs);
  CHECK(demangled.starts_with("void f<int>(void (int&, int&, "));
  CHECK(demangled.ends_with(", a<int>, a<int>))"));
  for (const std::string& deep : {"_Z" + repeated(8000, "Z"), "_Z1f" + repeated(8000, "P") + "i",
                                  "_Z1fI" + repeated(8000, "J"), "_Z1fIX" + repeated(4000, "ng") + "Li1EEEvv"}) {
    INFO(deep.substr(0, 10));
    CHECK(demangle(deep) == deep);
  }
}

TEST_CASE("demangling random text does not crash") {
  std::string name = "_Z";
  unsigned state = 1;
  for (int round = 0; round < 3000; ++round) {
    name.resize(2);
    if (round % 3 == 0) name = "_R";
    for (unsigned i = 0, n = state % 60; i < n; ++i) {
      state = state * 1664525 + 1013904223;
      name += "NKSt4pairIiEvLZZUlT_B_0123456789abcX$.."[(state >> 16) % 40];
    }
    state = state * 1664525 + 1013904223;
    CHECK_NOTHROW(demangle(name));
  }
}
