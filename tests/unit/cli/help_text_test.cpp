// --help of every command, and the messages about wrong command lines.
#include <catch2/catch.hpp>

#include <regex>
#include <sstream>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

namespace {

/// The commands that --help lists, and the formats of export.
std::vector<std::vector<std::string>> commands() {
  std::vector<std::vector<std::string>> result;
  std::istringstream pages(run({"manual", "--list"}).out);
  for (std::string page; std::getline(pages, page);) {
    const std::string prefix = "heapprof-";
    if (page.rfind(prefix, 0) != 0) continue;
    const std::string name = page.substr(prefix.size());
    const std::string group = "export-";
    if (name.rfind(group, 0) == 0) result.push_back({"export", name.substr(group.size())});
    else result.push_back({name});
  }
  return result;
}

}  // namespace

TEST_CASE("the help of every command has at most 100 columns") {
  CHECK(commands().size() > 20);
  for (std::vector<std::string> words : commands()) {
    INFO(words.front());
    words.push_back("--help");
    const Outcome help = run(words);
    CHECK(help.status == 0);
    CHECK(help.err == "");
    CHECK(help.out.find("--help") != std::string::npos);
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  }
}

TEST_CASE("--help lists every command once, under its task") {
  const Outcome help = run({"--help"});
  CHECK(help.status == 0);
  CHECK(help.out == run({"help"}).out);
  std::size_t at = 0;
  for (const char* group :
       {"\nRecord:\n", "\nSee where memory went:\n", "\nFind leaks:\n", "\nSee memory over time:\n",
        "\nCompare and check:\n", "\nExport:\n", "\nManage recordings:\n", "\nHelp:\n"}) {
    INFO(group);
    const std::size_t found = help.out.find(group, at);
    CHECK(found != std::string::npos);
    if (found != std::string::npos) at = found;
  }
  for (const std::vector<std::string>& words : commands()) {
    const std::string line = "\n  " + words.front() + " ";
    INFO(line);
    CHECK(help.out.find(line) != std::string::npos);
    CHECK(help.out.find(line) == help.out.rfind(line));
  }
}

TEST_CASE("the message about an unknown option names the nearest one") {
  const KnownTrace trace;
  const Outcome outcome = run({"report", trace.path(), "--jsn"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("--jsn") != std::string::npos);
  CHECK(outcome.err.find("--json") != std::string::npos);
  CHECK(outcome.err.find("heapprof report --help") != std::string::npos);
}

TEST_CASE("the message about an unknown command names the nearest one") {
  const Outcome outcome = run({"repotr"});
  CHECK(outcome.status == 2);
  CHECK(outcome.out == "");
  CHECK(outcome.err.find("repotr") != std::string::npos);
  CHECK(outcome.err.find("report") != std::string::npos);
}

TEST_CASE("the message about an invalid value names the value and the option") {
  const KnownTrace trace;
  const Outcome outcome = run({"report", trace.path(), "--top", "ten"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err.find("heapprof: invalid value 'ten' for --top; expected a whole number") == 0);
}

TEST_CASE("--version is a number, and the commit if git knows it") {
  const Outcome version = run({"--version"});
  CHECK(version.status == 0);
  INFO(version.out);
  CHECK(std::regex_match(version.out, std::regex(R"(\d+\.\d+\.\d+( \(commit [0-9a-f]{12}(-dirty)?\))?\n)")));
  CHECK(version.out.find('\n') == version.out.size() - 1);
}
