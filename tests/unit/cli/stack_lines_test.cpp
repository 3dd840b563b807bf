// Which frames of a stack are folded. Stacks are written as strings, innermost first: "+" begins a library frame, "-"
// a hidden one. "x!f" is in another module than "f", "f@a.y" has a line of that file, "f@a.y=a.c" is defined in
// another one, and "f@a.py#3" at that line.
#include <catch2/catch.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "analyzer/cli/text/stack_lines.h"

using namespace heapprof;
using namespace heapprof::cli;

namespace {

/// The printed lines, one word each: the function; or +N, *N, ^N, .N for N folded frames of libraries, of recursion,
/// of the start, and left out.
std::string lines(const std::string& stack, std::size_t limit = 12) {
  static const model::Module module, other_module;
  std::vector<Frame> frames;
  std::vector<FrameRole> roles;
  std::istringstream words(stack);
  for (std::string word; words >> word;) {
    const FrameRole role = word.front() == '+'   ? FrameRole::kLibrary
                           : word.front() == '-' ? FrameRole::kHidden
                                                 : FrameRole::kProgram;
    Frame& frame = frames.emplace_back();
    frame.function = role == FrameRole::kProgram ? word : word.substr(1);
    frame.module = frame.function.starts_with("x!") ? &other_module : &module;
    if (frame.module == &other_module) frame.function.erase(0, 2);
    if (const std::size_t at = frame.function.find('@'); at != std::string::npos) {
      frame.file = frame.function.substr(at + 1);
      frame.function.resize(at);
    }
    if (const std::size_t at = frame.file.find('#'); at != std::string::npos) {
      frame.definition_line = std::stoi(frame.file.substr(at + 1));
      frame.file.resize(at);
    }
    if (const std::size_t at = frame.file.find('='); at != std::string::npos) {
      frame.definition_file = frame.file.substr(at + 1);
      frame.file.resize(at);
    }
    roles.push_back(role);
  }
  std::string text;
  for (const StackLine& line : lines_of_stack(frames, roles, limit)) {
    if (!text.empty()) text += ' ';
    switch (line.kind) {
      case StackLine::Kind::kFrame: text += frames[line.first].function; break;
      case StackLine::Kind::kLibrary: text += '+' + std::to_string(line.count); break;
      case StackLine::Kind::kRecursion: text += '*' + std::to_string(line.count); break;
      case StackLine::Kind::kStart: text += '^' + std::to_string(line.count); break;
      case StackLine::Kind::kMore: text += '.' + std::to_string(line.count); break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("consecutive library frames are one line, wherever they stand") {
  CHECK(lines("+malloc +operator-new +vector::push_back load main") == "+3 load main");
  CHECK(lines("+operator-new load +invoke +std::function +std::sort run main") == "operator-new load +3 run main");
  CHECK(lines("load run main") == "load run main");
}

TEST_CASE("hidden frames are folded even if there is only one, unless nothing else is there") {
  CHECK(lines("-malloc load -xmlWalk run main") == "+1 load +1 run main");
  CHECK(lines("-malloc +xmalloc load -g_loop -g_main run main") == "+2 load +2 run main");
  CHECK(lines("-malloc -xmlInit") == "malloc xmlInit");
  CHECK(lines("-malloc load main", 0) == "malloc load main");
}

TEST_CASE("main is the last line") {
  CHECK(lines("load main +__libc_start_call_main +__libc_start_main_impl +_start") == "load main");
  // In a stripped program neither main nor _start has a name.
  CHECK(lines("load app+0x10 +__libc_start_call_main +__libc_start_main app+0x20") == "load app+0x10");
  // Rust's main is called by its runtime, which C's main calls.
  CHECK(
      lines("load app::main +call_once +std::rt::lang_start_internal +std::rt::lang_start main +__libc_start_main") ==
      "load app::main");
}

TEST_CASE("frames that start a thread are one line") {
  CHECK(lines("load serve +std::thread::_M_run +libstdc++.so.6+0x10 +start_thread +clone3") == "load serve ^4");
  CHECK(lines("load serve +clone") == "load serve clone");
}

TEST_CASE("recursion is folded between the innermost cycle and the outermost call") {
  CHECK(lines("visit visit visit visit visit main") == "visit *3 visit main");
  CHECK(lines("+malloc term expr factor term expr factor term expr parse main") ==
        "malloc term expr factor *3 term expr parse main");
  SECTION("functions that take part irregularly are folded, too") {
    CHECK(lines("a b a c a c b a b a main") == "a b *7 a main");
  }
  SECTION("a function that occurs once is no repetition") {
    CHECK(lines("eval call eval call native eval call eval call main") == "eval call *2 native *2 eval call main");
  }
  SECTION("two calls are no recursion worth a line") { CHECK(lines("visit visit main") == "visit visit main"); }
}

TEST_CASE("functions of one name in different files or modules are no recursion") {
  CHECK(lines("init@a.c init@b.c init@c.c init@d.c main") == "init init init init main");
  CHECK(lines("init@a.c init@b.c init@a.c init@b.c init@a.c main") == "init init *2 init main");
  CHECK(lines("x!f f x!f f main") == "f f f f main");
  // A function that has lines of several files is one.
  CHECK(lines("parse@g.y=g.c parse@g.c parse@h.y=g.c parse@g.c main") == "parse *2 parse main");
  // Where a file is unknown, the name decides.
  CHECK(lines("f f@a.c f f@a.c main") == "f *2 f main");
}

TEST_CASE("methods of one name in different classes of a Python file are no recursion") {
  CHECK(lines("__init__@a.py#3 __init__@a.py#20 __init__@a.py#41 __init__@a.py#60 <module>@a.py#1") ==
        "__init__ __init__ __init__ __init__ <module>");
  CHECK(lines("walk@a.py#3 walk@a.py#3 walk@a.py#3 walk@a.py#3 <module>@a.py#1") == "walk *2 walk <module>");
  // Where a line is unknown, the name decides.
  CHECK(lines("f@a.py f@a.py#3 f@a.py f@a.py#3 <module>@a.py#1") == "f *2 f <module>");
}

TEST_CASE("a stack of library frames only is printed") {
  CHECK(lines("+malloc +call_init +_dl_init") == "malloc call_init _dl_init");
  CHECK(lines("") == "");
}

TEST_CASE("the middle of a stack is left out last") {
  CHECK(lines("a b c d e f g h main", 6) == "a b c .4 h main");
  CHECK(lines("+m +n a b c d e main", 6) == "+2 a b .2 e main");
  CHECK(lines("a b c d", 1) == ".4");
}

TEST_CASE("without a limit nothing is folded") {
  CHECK(lines("+m +n a a a a main +_start", 0) == "m n a a a a main _start");
}

TEST_CASE("folded lines count and name what they stand for") {
  static const model::Module module;
  std::vector<Frame> frames(5);
  const char* const names[] = {"operator new(unsigned long)", "std::vector<int>::push_back(int const&)", "a()", "b()",
                               "clone3"};
  for (std::size_t i = 0; i < frames.size(); ++i) {
    frames[i].function = names[i];
    frames[i].module = &module;
  }
  using Kind = StackLine::Kind;
  CHECK(folded_text({Kind::kLibrary, 0, 2}, frames) == "… 2 frames, std::vector<…>::push_back to operator new …");
  CHECK(folded_text({Kind::kRecursion, 2, 2}, frames) == "… 2 frames of recursion of a, b …");
  CHECK(folded_text({Kind::kStart, 3, 2}, frames) == "… 2 frames that start the thread …");
  CHECK(folded_text({Kind::kStart, 2, 2}, frames) == "… 2 frames that start the program …");
  CHECK(folded_text({Kind::kMore, 2, 1}, frames) == "… 1 frame more …");
}
