// Recursion is folded, and each line knows its part.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "analyzer/findings/folded_stacks.h"
#include "tests/unit/findings/known_stacks.h"

using namespace heapprof;
using namespace heapprof::findings;
using heapprof::test::KnownStacks;

namespace {

using Part = StackLine::Part;

/// "site load", "caller parse +4": the parts, functions and folded frames.
std::vector<std::string> lines(const std::vector<std::string>& stack) {
  KnownStacks stacks;
  const std::uint32_t node = stacks.add(stack, 1, 1, 1);
  const CodeFrames frames = stacks.frames();
  std::vector<std::string> result;
  for (const StackLine& line : lines_of(frames, Helpers(frames, {}), node)) {
    static const char* const kParts[] = {"allocation", "site", "caller", "main", "start-up"};
    result.push_back(std::string(kParts[static_cast<int>(line.part)]) + " " + frames.at(line.frame).name +
                     (line.folded != 0 ? " +" + std::to_string(line.folded) : "") +
                     (line.is_helper ? " helper" : ""));
  }
  return result;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("each line of a stack knows its part") {
  CHECK(lines({"operator new(unsigned long)", "xmalloc", "load", "run", "main",
               "/usr/lib/libc.so.6!__libc_start_call_main", "/usr/lib/libc.so.6!__libc_start_main", "_start"}) ==
        Lines{"allocation operator new(unsigned long)", "allocation xmalloc helper", "site load", "caller run",
              "main main", "start-up __libc_start_call_main", "start-up __libc_start_main", "start-up _start"});
}

TEST_CASE("recursion counts as one") {
  CHECK(lines({"load", "sort:1", "sort:2", "sort:2", "sort:2", "main"}) ==
        Lines{"site load", "caller sort +3", "main main"});
  // a cycle of two functions
  CHECK(lines({"load", "term:1", "expression:1", "term:2", "expression:2", "term:2", "expression:3", "main"}) ==
        Lines{"site load", "caller term", "caller expression +4", "main main"});
  CHECK(lines({"sort:1", "sort:2", "main"}) == Lines{"site sort +1", "main main"});
  // Cycles do not cross the call site.
  CHECK(lines({"xmalloc", "collect_malloc", "xmalloc", "load", "collect_malloc", "main"}) ==
        Lines{"allocation xmalloc +2 helper", "site load", "caller collect_malloc helper", "main main"});
}

TEST_CASE("functions of one name in different files are no recursion") {
  CHECK(lines({"load", "init@b.c:3", "start", "init@a.c:5", "main"}) ==
        Lines{"site load", "caller init", "caller start", "caller init", "main main"});
  CHECK(lines({"load", "init@b.c:4", "init@a.c:5", "init@b.c:3", "init@a.c:5", "main"}) ==
        Lines{"site load", "caller init", "caller init +2", "main main"});
  // Where a file is unknown, the name decides.
  CHECK(lines({"load", "init", "start", "init@a.c:5", "main"}) == Lines{"site load", "caller init +2", "main main"});
}

TEST_CASE("methods of one name in different classes of a Python file are no recursion") {
  CHECK(lines({"load", "__init__@a.py#20:22", "__init__@a.py#3:5", "main"}) ==
        Lines{"site load", "caller __init__", "caller __init__", "main main"});
  CHECK(lines({"load", "__init__@a.py#20:22", "__init__@a.py#3:5", "__init__@a.py#20:23", "main"}) ==
        Lines{"site load", "caller __init__ +2", "main main"});
  // Where a line is unknown, the name decides.
  CHECK(lines({"load", "__init__@a.py#20:22", "__init__@a.py:5", "main"}) ==
        Lines{"site load", "caller __init__ +1", "main main"});
}

TEST_CASE("a function with lines of several files is one") {
  // A generated parser: its actions are lines of the grammar.
  CHECK(lines({"load", "parse@grammar.y(parser.c):7", "parse@parser.c:3", "parse@grammar.y(parser.c):9", "main"}) ==
        Lines{"site load", "caller parse +2", "main main"});
  CHECK(lines({"load", "parse@grammar.y(parser.c):7", "parse@lexer.l(parser.c):2", "main"}) ==
        Lines{"site load", "caller parse +1", "main main"});
  // Lines of one included file, in two functions of one name, are not distinguished; those of different files are.
  CHECK(lines({"load", "init@table.inc(b.c):3", "init@table.inc(a.c):3", "main"}) ==
        Lines{"site load", "caller init +1", "main main"});
  CHECK(lines({"load", "init@table.inc(b.c):3", "init@a.c:3", "main"}) ==
        Lines{"site load", "caller init", "caller init", "main main"});
  // Their stacks are similar ones.
  KnownStacks stacks;
  const std::vector<std::uint32_t> nodes = {
      stacks.add({"load", "parse@grammar.y(parser.c):7", "parse@parser.c:3", "main"}, 1, 10, 1),
      stacks.add({"load", "parse@grammar.y(parser.c):7", "main"}, 1, 10, 1)};
  const CodeFrames frames = stacks.frames();
  CHECK(fold(frames, Helpers(frames, {}), stacks.left(), nodes).size() == 1);
}

TEST_CASE("stacks that differ in recursion or allocators only are one") {
  KnownStacks stacks;
  const std::vector<std::uint32_t> nodes = {
      stacks.add({"load", "sort:2", "main"}, 1, 10, 1), stacks.add({"load", "sort:2", "sort:2", "main"}, 2, 10, 2),
      stacks.add({"load", "sort:2", "sort:2", "sort:2", "main"}, 1, 10, 1), stacks.add({"load", "main"}, 1, 20, 1)};
  const CodeFrames frames = stacks.frames();
  const std::vector<FoldedStack> folded = fold(frames, Helpers(frames, {}), stacks.left(), nodes);
  REQUIRE(folded.size() == 2);
  CHECK(folded[0].held == Held{40, 4});
  CHECK(folded[0].stacks == 3);
  CHECK(folded[0].node == nodes[1]);
  CHECK(folded[1].held == Held{20, 1});
  CHECK(folded[1].stacks == 1);
}

TEST_CASE("of own code only, stacks that differ in the code of others are equal") {
  KnownStacks stacks;
  const std::uint32_t one = stacks.add({"malloc", "/usr/lib/libxml.so!xmlParse", "load:1", "main"}, 1, 10, 1);
  const std::uint32_t two = stacks.add({"malloc", "/usr/lib/libxml.so!xmlCopy", "load:1", "main"}, 1, 20, 1);
  const std::uint32_t three = stacks.add({"malloc", "/usr/lib/libxml.so!xmlCopy", "load:2", "main"}, 1, 5, 1);
  const std::vector<std::uint32_t> nodes = {one, two, three};
  const auto folded = [&](findings::Scope scope) {
    const findings::CodeFrames frames = stacks.frames("/home/user/program", scope);
    return findings::fold(frames, findings::Helpers(frames, {}), stacks.left(), nodes);
  };
  CHECK(folded(findings::Scope::kAll).size() == 3);
  const std::vector<findings::FoldedStack> own = folded(findings::Scope::kOwn);
  REQUIRE(own.size() == 2);
  CHECK(own[0].stacks == 2);
  CHECK(own[0].node == two);
  CHECK(own[0].held.bytes == 30);
}
