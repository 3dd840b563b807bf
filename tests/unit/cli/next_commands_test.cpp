// The commands that texts end with: each works on the same recording, and has the selection of the text.
#include "analyzer/cli/commands/shared/next_commands.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <sstream>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

using Words = std::vector<std::string>;

/// Runs a command whose output is wide enough for commands in one line.
Outcome run_wide(const Words& words) {
  ::setenv("COLUMNS", "200", 1);
  Outcome outcome = run(words);
  ::unsetenv("COLUMNS");
  return outcome;
}

/// The arguments of the commands "LABEL: heapprof COMMAND TRACE ..." in a text, with the names of the trace and of an
/// output.
std::vector<Words> next_commands(const std::string& text, const std::string& trace) {
  std::vector<Words> commands;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::string begin = ": heapprof ";
    const std::size_t at = line.find(begin);
    if (at == std::string::npos) continue;
    Words& words = commands.emplace_back();
    std::istringstream rest(line.substr(at + begin.size()));
    for (std::string word; rest >> word;)
      words.push_back(word == "TRACE" || word == "BEFORE" || word == "AFTER" ? trace
                      : word == "diff.svg"                                   ? "/dev/null"
                                                                             : word);
  }
  return commands;
}

}  // namespace

TEST_CASE("every command that a text ends with has an answer") {
  const KnownTrace trace;
  const KnownTrace later(Variant::kTwice);
  const std::vector<Words> texts = {{"report", trace.path()},
                                    {"report", trace.path(), "--by", "function"},
                                    {"report", trace.path(), "--by", "module"},
                                    {"report", trace.path(), "--by", "thread"},
                                    {"leaks", trace.path()},
                                    {"tree", trace.path()},
                                    {"tree", trace.path(), "--inverted", "--cost", "leaked"},
                                    {"callers", trace.path(), kLoadName},
                                    {"callers", trace.path(), kLoadName, "--cost", "allocated"},
                                    {"blocks", trace.path()},
                                    {"blocks", trace.path(), "--live-at", "35ms"},
                                    {"churn", trace.path()},
                                    {"threads", trace.path()},
                                    {"diff", trace.path(), later.path()},
                                    {"diff", trace.path(), later.path(), "--cost", "leaked", "--min-size", "100"},
                                    {"diff", trace.path() + "@15ms", later.path() + "@80ms"},
                                    {"diff", trace.path() + "@15ms", trace.path() + "@80ms"}};
  for (const Words& text : texts) {
    const Outcome printed = run_wide(text);
    REQUIRE(printed.status == 0);
    const std::vector<Words> commands = next_commands(printed.out, trace.path());
    INFO(text.front() << '\n' << printed.out);
    CHECK_FALSE(commands.empty());
    for (const Words& command : commands) {
      if (command.front() == "serve") continue;  // runs until it is stopped
      const Outcome next = run(command);
      INFO(command.front() << ' ' << command.back() << '\n' << next.out);
      CHECK(next.status == 0);
      CHECK(next.err.empty());
    }
  }
}

TEST_CASE("the commands have the selection of the text") {
  const KnownTrace trace;
  const Words selection = {"--from", "15ms", "--not-thread", "worker", "--min-size", "100"};
  for (const char* command : {"report", "leaks", "tree", "blocks", "churn"}) {
    Words words = {command, trace.path()};
    words.insert(words.end(), selection.begin(), selection.end());
    CHECK(run_wide(words).has_line({"heapprof ", " TRACE ", "--from 15ms --not-thread worker --min-size 100"}));
  }
  CHECK(run_wide({"diff", trace.path() + "@15ms", trace.path() + "@80ms"})
            .has_line({"leaks TRACE --from 15ms --to 80ms"}));
}

TEST_CASE("all selecting options are words of a shell") {
  cli::TraceOptions options;
  CHECK(cli::selection_words(options).empty());
  options.texts.threads = {"my thread"};
  options.texts.functions = {"f(int)"};
  options.texts.to = "40%";
  options.texts.live_at = "mark:it's";
  options.selection.max_size = 4096;
  options.selection.kind = model::Kind::kAll;
  CHECK(cli::selection_words(options) ==
        " --to 40% --thread 'my thread' --function 'f(int)' --max-size 4096 --live-at 'mark:it'\\''s' --kind all");
}

TEST_CASE("the command about the first row selects that row alone") {
  const KnownTrace trace;
  const Outcome threads = run_wide(
      {"report", trace.path(), "--by", "thread", "--thread", "main", "--thread", "worker", "--min-size", "9"});
  CHECK(threads.has_line({"Call sites of the first: heapprof report TRACE --thread 4243 --min-size 9"}));
  CHECK(run_wide({"report", trace.path(), "--by", "module"}).has_line({"--by function --module libwork.so"}));
  // With two values of --module, more than one of them would be selected.
  CHECK_FALSE(run_wide({"report", trace.path(), "--by", "module", "--module", "demo"}).has_line({"--by function"}));
}
