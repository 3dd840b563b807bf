// heapprof manual: a page for every command.
#include <catch2/catch.hpp>

#include <filesystem>
#include <sstream>

#include "tests/support/temporary_file.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

std::vector<std::string> pages() {
  std::vector<std::string> names;
  std::istringstream lines(run({"manual", "--list"}).out);
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("a page names its command, options and exit statuses") {
  for (const char* name : {"check", "heapprof-check"}) {
    const Outcome page = run({"manual", name});
    CHECK(page.status == 0);
    CHECK(page.out.rfind(".TH HEAPPROF\\-CHECK 1", 0) == 0);
    CHECK(page.out.find("\\fB\\-\\-max\\-leaked\\fR \\fISIZE\\fR") != std::string::npos);
    CHECK(page.out.find(".SH EXIT STATUS\n") != std::string::npos);
    CHECK(page.out.find(".TP\n3\n") != std::string::npos);
  }
  CHECK(run({"manual", "report"}).out.find(".TP\n3\n") == std::string::npos);
  CHECK(run({"manual", "record"}).out.find(".TP\n127\n") != std::string::npos);
}

TEST_CASE("the overview refers to every other page") {
  const Outcome overview = run({"manual"});
  CHECK(overview.out == run({"manual", "heapprof"}).out);
  CHECK(pages().size() > 20);
  for (std::string name : pages()) {
    if (name == "heapprof") continue;
    for (std::size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.insert(at, "\\");
    INFO(name);
    CHECK(overview.out.find(".BR " + name + " (1)") != std::string::npos);
  }
}

TEST_CASE("manual --directory creates the directory and writes every page into it") {
  const TemporaryFile base("");
  const std::string directory = base.path() + ".d";
  CHECK(run({"manual", "--directory", directory}).status == 0);
  for (const std::string& name : pages())
    CHECK(read_file(directory + "/" + name + ".1") == run({"manual", name}).out);
  std::filesystem::remove_all(directory);
  CHECK(run({"manual", "--directory", kNoFile}).status == 1);
}

TEST_CASE("a page that does not exist is a wrong command line") {
  const Outcome page = run({"manual", "cooking"});
  CHECK(page.status == 2);
  CHECK(page.out == "");
}
