// Costs of source files and lines.
#include <catch2/catch.hpp>

#include <map>

#include "analyzer/views/source_costs.h"
#include "tests/unit/views/view_stacks.h"

using namespace heapprof;
using namespace heapprof::test;
using views::SourceFile;
using views::SourceLine;

namespace {

using SelfAndTotal = std::pair<std::uint64_t, std::uint64_t>;

std::vector<SourceFile> files_of(const ViewStacks& stacks, const std::string& only = {}) {
  const findings::CodeFrames frames = stacks.frames();
  const findings::Helpers helpers(frames, {});
  if (only.empty()) return views::source_costs(frames, helpers);
  std::vector<std::uint8_t> chosen;
  for (const findings::Function& function : frames.functions()) chosen.push_back(function.name == only);
  return views::source_costs(frames, helpers, &chosen);
}

SelfAndTotal leaked(const model::Costs& self, const model::Costs& total) {
  return {self.leaked_bytes, total.leaked_bytes};
}

const SourceFile* file_at(const std::vector<SourceFile>& files, const std::string& path) {
  for (const SourceFile& file : files)
    if (file.path == path) return &file;
  return nullptr;
}

std::map<int, SelfAndTotal> lines_of(const SourceFile& file) {
  std::map<int, SelfAndTotal> lines;
  for (const SourceLine& line : file.lines) lines[line.line] = leaked(line.self, line.total);
  return lines;
}

constexpr const char* kProgram = "/home/user/program.c";

SourceFile named(const std::string& path, std::vector<std::uint32_t> modules = {}) {
  SourceFile file;
  file.path = path;
  file.modules = std::move(modules);
  return file;
}

}  // namespace

TEST_CASE("a line costs itself what its call sites cost, and in total what is below it") {
  ViewStacks stacks;
  stacks.leak({"malloc", "load:10", "main:3"}, 1);
  stacks.leak({"malloc", "xmalloc:7", "load:11", "main:3"}, 10);
  stacks.leak({"malloc", "main:4"}, 100);
  const std::vector<SourceFile> files = files_of(stacks);
  const SourceFile* const program = file_at(files, kProgram);
  REQUIRE(program != nullptr);
  CHECK(lines_of(*program) ==
        std::map<int, SelfAndTotal>{{3, {0, 11}}, {4, {100, 100}}, {7, {0, 10}}, {10, {1, 1}}, {11, {10, 10}}});
  CHECK(leaked(program->self, program->total) == SelfAndTotal{111, 111});
}

TEST_CASE("a line counts once in a stack: in recursion, and in two functions") {
  ViewStacks stacks;
  stacks.leak({"malloc", "walk:2", "walk:2", "main:1"}, 1);
  // Two functions of a macro, or an inlined function and its lambda, can have code at one line.
  stacks.leak({"malloc", "inner:5/outer:5", "main:1"}, 10);
  const std::vector<SourceFile> files = files_of(stacks);
  const SourceFile& program = *file_at(files, kProgram);
  CHECK(lines_of(program) == std::map<int, SelfAndTotal>{{1, {0, 11}}, {2, {1, 1}}, {5, {10, 10}}});
  CHECK(program.lines[2].functions.size() == 2);
}

TEST_CASE("own costs add up to the totals, with those of unknown files and of stacks without frames") {
  ViewStacks stacks;
  stacks.leak({"malloc", "load:10", "main:3"}, 1);
  stacks.leak({"malloc", "stripped", "main:3"}, 10);
  stacks.leak({}, 100);
  std::uint64_t files_sum = 0, lines_sum = 0;
  const std::vector<SourceFile> files = files_of(stacks);
  for (const SourceFile& file : files) {
    files_sum += file.self.leaked_bytes;
    for (const SourceLine& line : file.lines) lines_sum += line.self.leaked_bytes;
  }
  CHECK(files_sum == 111);
  CHECK(lines_sum == 111);
  CHECK(file_at(files, "")->self.leaked_bytes == 110);
}

TEST_CASE("the lines of one function are those of its own frames") {
  ViewStacks stacks;
  stacks.leak({"malloc", "load:10", "main:3"}, 1);
  stacks.leak({"malloc", "store:10", "main:4"}, 10);
  const std::vector<SourceFile> files = files_of(stacks, "load");
  REQUIRE(files.size() == 1);
  CHECK(lines_of(files.front()) == std::map<int, SelfAndTotal>{{10, {1, 1}}});
}

TEST_CASE("a file is named by any last part of its path") {
  model::Profile profile;
  profile.modules.resize(3);
  profile.modules[1].path = "/usr/lib/liba.so";
  profile.modules[2].path = "/usr/lib/libb.so";
  const std::vector<SourceFile> files = {named("/home/me/one/parse.c"),  named("/home/me/two/parse.c"),
                                         named("/home/me/two/sparse.c"), named("util.c", {1}),
                                         named("util.c", {2}),           named("")};
  const auto count = [&](const std::string& name) { return views::files_named(files, profile, name).size(); };
  CHECK(count("parse.c") == 2);
  CHECK(count("one/parse.c") == 1);
  CHECK(count("/one/parse.c") == 1);
  CHECK(count("/home/me/two/parse.c") == 1);
  CHECK(count("sparse.c") == 1);
  CHECK(count("arse.c") == 0);
  CHECK(count("") == 0);
  CHECK(count("util.c") == 2);
  const auto of_module = views::files_named(files, profile, "libb.so:util.c");
  REQUIRE(of_module.size() == 1);
  CHECK(of_module.front()->modules == std::vector<std::uint32_t>{2});
}
