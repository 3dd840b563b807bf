// heapprof html: the page in one file. tests/e2e/html_file.py compares all answers with those of the commands.
#include <catch2/catch.hpp>

#include <fstream>

#include "tests/support/page_answers.h"
#include "tests/support/temporary_file.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"
#include "tests/unit/cli/wrong_command_lines.h"

using namespace heapprof::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("html writes a page with the figures of the recording, and says what it holds") {
  const KnownTrace trace;
  const TemporaryFile file(".html");
  // Without most of what is less important: each answer is a process. tests/e2e/html_file.py has a page with
  // everything.
  const Outcome outcome = run({"html", trace.path(), "-o", file.path(), "--max-size", "500K"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "");
  CHECK(contains(outcome.err, file.path() + ": "));
  CHECK(contains(outcome.err, "it holds no source text (--sources includes it)\n"));
  CHECK(contains(outcome.err, "it holds no command-line arguments (--command-line includes them)\n"));
  const std::string page = read_file(file.path());
  CHECK(page.starts_with("<!doctype html>"));
  CHECK_FALSE(contains(page, "--fast"));
  const std::string answers = answers_in(page);
  CHECK(json_at(answers, "/format_version") == "1");
  CHECK(json_at(answers, "/trace") == trace.path().substr(trace.path().rfind('/') + 1));
  CHECK(contains(json_at(answers, "/pruned"), "ten ranges"));
  CHECK(json_at(answers, "/answers/info?/program") == "/opt/known/demo");
  CHECK(json_at(answers, "/answers/info?/command_line") == R"(["demo"])");
  CHECK(json_at(answers, "/answers/info?/command_line_omitted") == "true");
  // Of `report` and of `tree`.
  CHECK(contains(answers, "\"peak_bytes\":" + std::to_string(kPeakBytes)));
  CHECK(contains(answers, "\"leaked_bytes\":" + std::to_string(kLeakedBytes)));
  for (const char* name : {kMainName, kLoadName, kParseName, kWorkName}) CHECK(contains(answers, name));
}

TEST_CASE("html refuses to replace a recording, whether it is read or another one") {
  const KnownTrace trace, other(Variant::kTwice);
  for (const KnownTrace* const output : {&trace, &other}) {
    const std::string bytes = read_file(output->path());
    const Outcome outcome = run({"html", trace.path(), "-o", output->path()});
    CHECK(outcome.status == 1);
    CHECK(outcome.out == "");
    CHECK(contains(outcome.err, output->path() + (output == &trace ? ": is the trace itself" : ": is a recording")));
    CHECK(contains(outcome.err, "give the output another name"));
    CHECK(read_file(output->path()) == bytes);
  }
}

TEST_CASE("html leaves an old file where the recording cannot be read or the page is too large") {
  const KnownTrace trace;
  const TemporaryFile file(".html");
  std::ofstream(file.path()) << "old";
  const Outcome missing = run({"html", kNoFile, "-o", file.path()});
  CHECK(missing.status == 1);
  CHECK(contains(missing.err, kNoFile));
  const Outcome large = run({"html", trace.path(), "-o", file.path(), "--max-size", "1K"});
  CHECK(large.status == 1);
  CHECK(contains(large.err, "--max-size 1.00 KiB: the page itself has "));
  CHECK(contains(large.err, ", and its main figures have "));
  CHECK(contains(large.err, "; give at least "));
  CHECK(read_file(file.path()) == "old");
}

TEST_CASE("html rejects a wrong command line with exit status 2 and names the error") {
  const KnownTrace trace;
  check_rejected({"html"}, {{{trace.path()}, "-o"},
                            {{trace.path(), "-o"}, "-o"},
                            {{trace.path(), "-o", "-", "--max-size", "x"}, "--max-size"},
                            {{trace.path(), "-o", "-", "--own", "("}, "--own"},
                            {{trace.path(), "-o", "-", "--json"}, "--json"},
                            {{trace.path(), "another", "-o", "-"}, "another"}});
}
