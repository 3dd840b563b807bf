// Names of frames: the function if symbols are found, otherwise module and offset.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_names.h"
#include "analyzer/symbols/module_symbols.h"
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

TEST_CASE("generated code is looked up until it has a name") {
  const std::string map = "/tmp/perf-" + std::to_string(::getpid()) + ".map";
  std::filesystem::remove(map);
  model::Profile profile;
  profile.recording.pid = static_cast<std::uint32_t>(::getpid());
  profile.modules.resize(1);
  profile.addresses.push_back({0, 0x1000});
  profile.nodes.resize(2);
  profile.nodes[1].address = 0;
  KnownFrames known;
  const auto name = [&] {
    StackNames names(profile, {});
    names.resolve({1}, &known);
    return names.frames_of_node(1).at(0).function;
  };
  CHECK(name().empty());
  std::ofstream(map) << "1000 100 compiled\n";
  CHECK(name() == "compiled");
  std::filesystem::remove(map);
  CHECK(name() == "compiled");

  // A library's symbols are not written later.
  model::Module library;
  library.path = "/usr/lib/libx.so.1";
  known.add(library, 0x10, std::vector<symbols::SourceFrame>(1));
  CHECK(known.find(library, 0x10) != nullptr);
}

TEST_CASE("frames that were looked up are those of one file") {
  const auto named = [](const char* function) {
    std::vector<symbols::SourceFrame> frames(1);
    frames[0].function = function;
    return frames;
  };
  KnownFrames known;
  const auto name = [&](const model::Module& module) {
    const auto* const frames = known.find(module, 0x10);
    return frames == nullptr ? std::string("(not known)") : frames->back().function;
  };
  // A library without build ID that was replaced while the program ran, and loaded again.
  model::Module before, after;
  before.path = after.path = "/usr/lib/libx.so.1";
  before.map_bytes = 0x5000;
  after.map_bytes = 0x6000;
  known.add(before, 0x10, named("before"));
  CHECK(name(before) == "before");
  CHECK(name(after) == "(not known)");
  known.add(after, 0x10, named("after"));
  CHECK(name(before) == "before");
  CHECK(name(after) == "after");
  // With a build ID, the mapped length does not matter.
  model::Module with_id = before, in_part = after;
  with_id.build_id = in_part.build_id = "0011223344";
  known.add(with_id, 0x10, named("with build ID"));
  CHECK(name(in_part) == "with build ID");
  CHECK(name(before) == "before");
  // Nobody knows which file a module with a lost definition is; it is not generated code.
  model::Module generated, lost;
  lost.lost = true;
  known.add(generated, 0x10, named("compiled"));
  CHECK(name(generated) == "compiled");
  CHECK(name(lost) == "(not known)");
  known.add(lost, 0x10, named("something"));
  CHECK(name(generated) == "compiled");
}

TEST_CASE("a line of Python is named once its code is defined") {
  model::Profile profile;
  profile.modules.resize(2);
  profile.modules[1].path = "Python 3.11";
  profile.modules[1].is_python = true;
  profile.addresses.push_back({1, 0x100});
  profile.nodes.resize(2);
  profile.nodes[1].address = 0;
  KnownFrames known;
  const auto name = [&](const char* function) {
    symbols::ModuleSymbols python;
    python.path = profile.modules[1].path;
    python.addresses = {0x100};
    python.frames.assign(1, std::vector<symbols::SourceFrame>(1));
    python.frames[0][0].function = function;
    profile.python_symbols = std::make_shared<const symbols::ModuleSymbols>(python);
    StackNames names(profile, {});
    names.resolve({1}, &known);
    return names.frames_of_node(1).at(0).function;
  };
  CHECK(name("(unknown Python code) +1") == "(unknown Python code) +1");
  CHECK(name("handle") == "handle");
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
