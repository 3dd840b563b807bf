// Which blocks the built-in suppressions take: stacks as real programs have them, with libc's debug symbols and
// without.
#include <catch2/catch.hpp>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/cli/commands/suppressions.h"

using namespace heapprof;
using namespace heapprof::cli;

namespace {

constexpr const char* kProgram = "/usr/bin/program";
constexpr const char* kLibrary = "/usr/lib/libother.so.1";
constexpr const char* kLibc = "/lib/x86_64-linux-gnu/libc.so.6";
constexpr const char* kLoader = "/lib64/ld-linux-x86-64.so.2";
constexpr const char* kCxx = "/lib/x86_64-linux-gnu/libstdc++.so.6";

using Places = std::vector<std::pair<const char*, const char*>>;  // innermost first: module, function

/// What a block with this stack is said to be for; empty: it is shown.
std::string taken_for(const Places& places, std::uint64_t bytes = 24, std::uint64_t blocks = 1) {
  std::deque<model::Module> modules;
  std::vector<Frame> stack;
  for (const auto& [path, function] : places) {
    modules.emplace_back().path = path;
    Frame& frame = stack.emplace_back();
    frame.module = &modules.back();
    frame.function = function;
  }
  Suppressions suppressions;
  suppressions.add_built_in();
  if (!suppressions.take(stack, bytes, blocks)) return {};
  const auto hits = suppressions.hits();
  REQUIRE(hits.size() == 1);
  CHECK(hits[0].bytes == bytes);
  CHECK(hits[0].blocks == blocks);
  return hits[0].name;
}

}  // namespace

TEST_CASE("what libc keeps for itself is not the program's") {
  // Functions that end in a jump stand in no stack; what they jump to does, where libc has its symbols.
  constexpr const char* kLocales = "locales and message catalogues";
  constexpr const char* kConversions = "conversions of characters";
  CHECK(taken_for({{kLibc, "__add_to_environ"}, {kProgram, "spt_init"}}) == "the environment");
  CHECK(taken_for({{kLibc, "tsearch"}, {kLibc, "__add_to_environ"}, {kProgram, "spt_init"}}) == "the environment");
  CHECK(taken_for({{kLibc, "_nl_find_domain"}, {kLibc, "__dcigettext"}, {kLibrary, "g_dgettext"}}) == kLocales);
  CHECK(taken_for({{kLibc, ""}, {kLibc, ""}, {kLibc, "strerror_l"}, {kProgram, "main"}}) == kLocales);
  CHECK(taken_for({{kLibc, "_nl_find_locale"}, {kLibc, "newlocale"}, {kProgram, "main"}}) == kLocales);
  CHECK(taken_for({{kLibc, ""}, {kLibc, ""}, {kLibc, "mbstowcs"}, {kProgram, "main"}}) == kConversions);
  CHECK(taken_for({{kLibc, "__wcsmbs_load_conv"}, {kLibc, "get_gconv_fcts"}, {kLibc, "mblen"}, {kProgram, "main"}}) ==
        kConversions);
  CHECK(taken_for({{kLibc, ""}, {kLibc, ""}, {kLibc, "newlocale"}, {kProgram, "main"}}) == kLocales);
  CHECK(taken_for({{kLibc, ""}, {kLibc, "[tail of putenv, setenv]"}, {kProgram, "main"}}) == "the environment");
  CHECK(taken_for({{kLibc, "[tail of __cxa_atexit]"}, {kProgram, "main"}}) == "functions to call at exit");
  CHECK(taken_for({{kLibc, "_dlerror_run"}, {kLibc, "dlsym"}, {kLibrary, "init"}}) == "the loader's last error");
  CHECK(taken_for({{kLibc, "__internal_atexit"}, {kProgram, ""}}) == "functions to call at exit");
  CHECK(taken_for({{kLibc, ""}, {kLibc, ""}, {kLibc, "getservbyname"}, {kProgram, "main"}}) == "name services");
  CHECK(taken_for({{kLibc, "__gconv_find_shlib"}, {kLibc, "iconv_open"}, {kProgram, "main"}}) == kConversions);
  CHECK(taken_for({{kLibc, "register_printf_type"}, {kLibrary, "init"}}) == "conversions added to printf");
}

TEST_CASE("what the program asked libc for is the program's") {
  CHECK(taken_for({{kLibc, "strdup"}, {kProgram, "main"}}) == "");
  CHECK(taken_for({{kLibc, "getcwd"}, {kProgram, "main"}}) == "");
  CHECK(taken_for({{kLibc, "newlocale"}, {kProgram, "main"}}) == "");
  CHECK(taken_for({{kLibc, "__gconv_open"}, {kLibc, "iconv_open"}, {kProgram, "main"}}) == "");
  CHECK(taken_for({{kLibc, "[tail of setenv, strdup]"}, {kProgram, "main"}}) == "");
  CHECK(taken_for({{kLibc, "[tail of setenv, tzset]"}, {kProgram, "main"}}) == "");
  // It stands above the program's own frame: a call back.
  CHECK(taken_for({{kProgram, "compare"}, {kLibc, "setenv"}, {kProgram, "main"}}) == "");
  // A function of the program's may have any name.
  CHECK(taken_for({{kProgram, "setenv"}, {kProgram, "main"}}) == "");
}

TEST_CASE("the emergency pool of a libstdc++ that was linked in") {
  constexpr const char* kPool = "libstdc++'s emergency pool";
  CHECK(taken_for({{kCxx, ""}, {kLoader, "call_init"}}, 72704) == kPool);
  for (const std::uint64_t bytes : {72704, 73728}) {  // to GCC 12; from 13 on
    CHECK(taken_for({{kLibrary, ""}, {kLoader, "call_init"}, {kLoader, "_dl_init"}}, bytes) == kPool);
    CHECK(taken_for({{kProgram, ""}, {kLibc, "__libc_start_main_impl"}, {kProgram, "_start"}}, bytes) == kPool);
    CHECK(taken_for({{kProgram, ""}, {kProgram, "_GLOBAL__sub_I_"}, {kLibc, "__libc_start_main"}}, bytes) == kPool);
  }
  CHECK(taken_for({{kProgram, ""}, {kLibc, "__libc_start_main_impl"}}, 72704, 2) == "");
  CHECK(taken_for({{kProgram, ""}, {kLibc, "__libc_start_main_impl"}}, 72705) == "");
  const auto of_main = [](const char* caller) { return Places{{kProgram, "main"}, {kLibc, caller}}; };
  CHECK(taken_for(of_main("__libc_start_call_main"), 72704) == "");
  CHECK(taken_for(of_main("__libc_start_main"), 72704) == "");  // before glibc 2.34
  CHECK(taken_for({{kProgram, "a"}, {kProgram, "b"}, {kProgram, "c"}, {kLoader, "call_init"}}, 72704) == "");
}
