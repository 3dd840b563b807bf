// Names of frames: the function if symbols are found, otherwise module and offset.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/stack_names.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"
#include "tests/unit/cli/libc_frame.h"

using namespace heapprof;
using namespace heapprof::cli;
using namespace heapprof::test;

TEST_CASE("a frame without a name is module and offset, or the address where there is no module") {
  model::Module module;
  module.path = "/usr/lib/libx.so.1";
  Frame frame;
  frame.module = &module;
  frame.offset = 0x1234;
  CHECK(unresolved_name(frame) == "libx.so.1+0x1234");
  frame.function_begin = 0x1200;  // every frame of one function has one name
  CHECK(unresolved_name(frame) == "libx.so.1+0x1200");
  const model::Module none;
  Frame code;
  code.module = &none;
  code.offset = 0x7f00abcd;
  CHECK(unresolved_name(code) == "0x7f00abcd");
}

TEST_CASE("a function in a library that exists is named") {
  const TemporaryFile trace;
  const std::string libc = write_libc_frame(trace.path());
  REQUIRE(libc != "");
  const Outcome report = run({"report", trace.path(), "--json"});
  CHECK(report.number("/top/0/bytes") == kLibcBytes);
  CHECK(report.at("/top/0/stack/0/module") == libc);
  CHECK(report.at("/top/0/stack/0/function").find("getenv") != std::string::npos);
  CHECK(report.at("/symbol_warnings").find("unresolved") == std::string::npos);
  CHECK(run({"report", trace.path(), "--json", "--no-symbols"}).at("/top/0/stack/0/function") == "");
}

TEST_CASE("unresolved addresses are counted by module") {
  const KnownTrace trace;
  const Outcome report = run({"report", trace.path(), "--json"});
  const std::string warnings = report.at("/symbol_warnings");
  CHECK(warnings.find("4 of 4") != std::string::npos);
  CHECK(warnings.find("demo (3)") != std::string::npos);
  CHECK(warnings.find("libwork.so (1)") != std::string::npos);
}
