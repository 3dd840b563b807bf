// Frames in one line.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/frame_text.h"

using namespace heapprof;
using namespace heapprof::cli;

TEST_CASE("a frame is printed as function and line, else as module and offset") {
  model::Module module;
  module.path = "/usr/lib/libx.so.1";
  Frame frame;
  frame.module = &module;
  frame.offset = 0x1234;
  CHECK(one_line(frame) == "libx.so.1+0x1234");
  frame.function = "parse";
  frame.file = "/src/parse.cpp";
  frame.line = 12;
  const std::string line = one_line(frame);
  CHECK(line.rfind("parse", 0) == 0);
  CHECK(line.find("parse.cpp:12") != std::string::npos);
}

TEST_CASE("names in tables have neither parameters nor traits") {
  CHECK(function_name("SessionStore::open_session(int)") == "SessionStore::open_session");
  CHECK(function_name("std::vector<int>::at(unsigned long) const") == "std::vector<…>::at");
  CHECK(function_name("main::{lambda()#1}::operator()() const") == "main::{lambda()#1}::operator()");
  CHECK(function_name("xmalloc") == "xmalloc");
  CHECK(function_name("<app::Table<T> as core::clone::Clone>::clone") == "app::Table<…>::clone");
  CHECK(function_name("<alloc::vec::Vec<T>>::push") == "<alloc::vec::Vec<T>>::push");
}

TEST_CASE("a name without parameters and template arguments finds a function") {
  CHECK(searched_name("SessionStore::open_session(int)") == "SessionStore::open_session");
  CHECK(searched_name("int* mine::pick<int>(int)") == "mine::pick");
  CHECK(searched_name("(anonymous namespace)::load(int)") == "(anonymous namespace)::load");
  CHECK(searched_name("<app::Table<T> as core::clone::Clone>::clone") ==
        "<app::Table<T> as core::clone::Clone>::clone");
  CHECK(searched_name("xmalloc") == "xmalloc");
  CHECK(searched_name("Job.run.<locals>.<lambda>") == "Job.run.<locals>.<lambda>");
  CHECK(searched_name("<module>") == "<module>");
}

TEST_CASE("a call site without a stack has a fixed name") { CHECK(site_name(Frame{}) == "(no stack recorded)"); }

TEST_CASE("a location is a source line, else a module, else an offset in the function") {
  model::Module module;
  module.path = "/usr/lib/libx.so.1";
  Frame frame;
  frame.module = &module;
  frame.offset = 0x1234;
  CHECK(location_of(frame) == "");
  frame.function_begin = 0x1200;
  CHECK(location_of(frame) == "+0x34");
  frame.function = "parse";
  CHECK(location_of(frame) == "in libx.so.1");
  frame.file = "/src/parse.cpp";
  CHECK(location_of(frame) == "parse.cpp");
  frame.line = 12;
  CHECK(location_of(frame) == "parse.cpp:12");
  frame.file = "/usr/lib/python3/json/__init__.py";
  CHECK(location_of(frame) == "json/__init__.py:12");
  CHECK(one_line(frame) == "parse at json/__init__.py:12");
}

TEST_CASE("a truncated stack has a reason") {
  CHECK(std::string(words_for_truncation("max_depth")) == "deeper than HEAPPROF_MAX_DEPTH");
  CHECK(std::string(words_for_truncation("a new reason")) == "a new reason");
  CHECK(truncation_frame("max_depth") == "[truncated stack: max_depth]");
  CHECK(truncation_frame(nullptr) == "[truncated stack: unknown]");
}
