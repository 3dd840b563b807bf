// The parts that text reports are made of.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/report_text.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::cli;
using namespace heapprof::test;

TEST_CASE("a table sets its columns right, and the last one left") {
  const model::Profile profile;
  ReportText text(profile, {});
  text.table({"blocks", "call site"}, {{"7", "main"}, {"1,234,567", "load"}});
  CHECK(text.text() ==
        "     blocks  call site\n"
        "          7  main\n"
        "  1,234,567  load\n");
}

TEST_CASE("a row has a label, a figure and what belongs to it") {
  const model::Profile profile;
  ReportText text(profile, {});
  text.row("peak", "7.00 KiB", "in 3 blocks");
  CHECK(text.text() == "  peak         7.00 KiB  in 3 blocks\n");
}

TEST_CASE("bold text is painted where colours are shown, and only there") {
  const model::Profile profile;
  CHECK(ReportText(profile, {.colour = false}).bold("x") == "x");
  CHECK(ReportText(profile, {.colour = true}).bold("x") == "\x1b[1mx\x1b[0m");
}

TEST_CASE("a bar is as long as its share of the columns") {
  const model::Profile profile;
  const ReportText text(profile, {.unicode = false});
  const std::string full = text.bar(8, 8, 8);
  const std::string half = text.bar(4, 8, 8);
  CHECK(full.size() == 8);
  CHECK(half.substr(0, 4) == full.substr(0, 4));
  CHECK(half.find_last_not_of(' ') == 3);
  CHECK(text.bar(0, 8, 8).find_first_not_of(' ') == std::string::npos);
}

TEST_CASE("a frame is named by function and line, else by module and offset") {
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

TEST_CASE("where the locale is not UTF-8, the report is ASCII") {
  CHECK(plain_text("a … b", false).find_first_not_of("ab .") == std::string::npos);
  CHECK(plain_text("a … b", true) == "a … b");
}

TEST_CASE("the end of a recording is told in words") {
  model::Profile profile;
  profile.recording.program = "/opt/known/demo";
  CHECK(command_of(profile).find("demo") != std::string::npos);
  profile.integrity.ended_by = "exit";
  profile.integrity.end_status = 3;
  CHECK(ending_of(profile).find('3') != std::string::npos);
  const std::string at_end = live_words(profile);
  profile.integrity.ended_by = "running";
  CHECK(live_words(profile) != at_end);
}
