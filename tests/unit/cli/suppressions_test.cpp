// Which blocks the built-in suppressions match: stacks of real programs, with and without libc's debug symbols.
#include <catch2/catch.hpp>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/leaks/suppressions.h"

using namespace heapprof;
using namespace heapprof::cli;

namespace {

constexpr const char* kProgram = "/usr/bin/program";
constexpr const char* kLibrary = "/usr/lib/libother.so.1";
constexpr const char* kLibc = "/lib/x86_64-linux-gnu/libc.so.6";
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
constexpr const char* kCxx = "/lib/x86_64-linux-gnu/libstdc++.so.6";

using Stack = std::vector<std::pair<const char*, const char*>>;  // innermost first: module, function

/// The suppression that matches a block with this stack; empty if there is none.
std::string suppressed_as(const Stack& frames, std::uint64_t bytes = 24, std::uint64_t blocks = 1) {
  std::deque<model::Module> modules;
  std::vector<Frame> stack;
  for (const auto& [path, function] : frames) {
    modules.emplace_back().path = path;
    Frame& frame = stack.emplace_back();
    frame.module = &modules.back();
    frame.function = function;
  }
  Suppressions suppressions;
  suppressions.add_built_in();
  if (!suppressions.match(stack, bytes, blocks)) return {};
  const auto hits = suppressions.hits();
  REQUIRE(hits.size() == 1);
  CHECK(hits[0].bytes == bytes);
  CHECK(hits[0].blocks == blocks);
  return hits[0].name;
}

}  // namespace

TEST_CASE("blocks that libc keeps for itself are suppressed") {
  // Functions that end in a jump are not in the stack; the function that they jump to is, if libc has symbols for it.
  constexpr const char* kLocales = "locales and message catalogues";
  constexpr const char* kConversions = "conversions of characters";
  CHECK(suppressed_as({{kLibc, "__add_to_environ"}, {kProgram, "spt_init"}}) == "the environment");
  CHECK(suppressed_as({{kLibc, "tsearch"}, {kLibc, "__add_to_environ"}, {kProgram, "spt_init"}}) ==
        "the environment");
  CHECK(suppressed_as({{kLibc, "_nl_find_domain"}, {kLibc, "__dcigettext"}, {kLibrary, "g_dgettext"}}) == kLocales);
  CHECK(suppressed_as({{kLibc, ""}, {kLibc, ""}, {kLibc, "strerror_l"}, {kProgram, "main"}}) == kLocales);
  CHECK(suppressed_as({{kLibc, "_nl_find_locale"}, {kLibc, "newlocale"}, {kProgram, "main"}}) == kLocales);
  CHECK(suppressed_as({{kLibc, ""}, {kLibc, ""}, {kLibc, "mbstowcs"}, {kProgram, "main"}}) == kConversions);
  CHECK(suppressed_as(
            {{kLibc, "__wcsmbs_load_conv"}, {kLibc, "get_gconv_fcts"}, {kLibc, "mblen"}, {kProgram, "main"}}) ==
        kConversions);
  CHECK(suppressed_as({{kLibc, ""}, {kLibc, ""}, {kLibc, "newlocale"}, {kProgram, "main"}}) == kLocales);
  CHECK(suppressed_as({{kLibc, ""}, {kLibc, "[tail of putenv, setenv]"}, {kProgram, "main"}}) == "the environment");
  CHECK(suppressed_as({{kLibc, "[tail of __cxa_atexit]"}, {kProgram, "main"}}) == "functions to call at exit");
  CHECK(suppressed_as({{kLibc, "_dlerror_run"}, {kLibc, "dlsym"}, {kLibrary, "init"}}) == "the loader's last error");
  CHECK(suppressed_as({{kLibc, "__internal_atexit"}, {kProgram, ""}}) == "functions to call at exit");
  CHECK(suppressed_as({{kLibc, ""}, {kLibc, ""}, {kLibc, "getservbyname"}, {kProgram, "main"}}) == "name services");
  CHECK(suppressed_as({{kLibc, "__gconv_find_shlib"}, {kLibc, "iconv_open"}, {kProgram, "main"}}) == kConversions);
  CHECK(suppressed_as({{kLibc, "register_printf_type"}, {kLibrary, "init"}}) == "conversions added to printf");
}

TEST_CASE("blocks that libc allocates for the program are not suppressed") {
  CHECK(suppressed_as({{kLibc, "strdup"}, {kProgram, "main"}}) == "");
  CHECK(suppressed_as({{kLibc, "getcwd"}, {kProgram, "main"}}) == "");
  CHECK(suppressed_as({{kLibc, "newlocale"}, {kProgram, "main"}}) == "");
  CHECK(suppressed_as({{kLibc, "__gconv_open"}, {kLibc, "iconv_open"}, {kProgram, "main"}}) == "");
  CHECK(suppressed_as({{kLibc, "[tail of setenv, strdup]"}, {kProgram, "main"}}) == "");
  CHECK(suppressed_as({{kLibc, "[tail of setenv, tzset]"}, {kProgram, "main"}}) == "");
  // libc calls back a function of the program, which allocates.
  CHECK(suppressed_as({{kProgram, "compare"}, {kLibc, "setenv"}, {kProgram, "main"}}) == "");
  // A function of the program may have the same name.
  CHECK(suppressed_as({{kProgram, "setenv"}, {kProgram, "main"}}) == "");
}

TEST_CASE("the emergency pool of a statically linked libstdc++") {
  constexpr const char* kPool = "libstdc++'s emergency pool";
  CHECK(suppressed_as({{kCxx, ""}, {kLoader, "call_init"}}, 72704) == kPool);
  for (const std::uint64_t bytes : {72704, 73728}) {  // to GCC 12; from 13 on
    CHECK(suppressed_as({{kLibrary, ""}, {kLoader, "call_init"}, {kLoader, "_dl_init"}}, bytes) == kPool);
    CHECK(suppressed_as({{kProgram, ""}, {kLibc, "__libc_start_main_impl"}, {kProgram, "_start"}}, bytes) == kPool);
    CHECK(suppressed_as({{kProgram, ""}, {kProgram, "_GLOBAL__sub_I_"}, {kLibc, "__libc_start_main"}}, bytes) ==
          kPool);
  }
  CHECK(suppressed_as({{kProgram, ""}, {kLibc, "__libc_start_main_impl"}}, 72704, 2) == "");
  CHECK(suppressed_as({{kProgram, ""}, {kLibc, "__libc_start_main_impl"}}, 72705) == "");
  const auto of_main = [](const char* caller) { return Stack{{kProgram, "main"}, {kLibc, caller}}; };
  CHECK(suppressed_as(of_main("__libc_start_call_main"), 72704) == "");
  CHECK(suppressed_as(of_main("__libc_start_main"), 72704) == "");  // before glibc 2.34
  CHECK(suppressed_as({{kProgram, "a"}, {kProgram, "b"}, {kProgram, "c"}, {kLoader, "call_init"}}, 72704) == "");
}
