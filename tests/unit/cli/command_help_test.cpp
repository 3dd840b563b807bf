// Help, manual pages and completions are generated from one description of the commands and options.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("an option has all its names, the name of its value, and its default") {
  const Outcome help = run({"report", "--help"});
  CHECK(help.has_line({"-o, --output FILE", "(default -)"}));
  CHECK(help.has_line({"--frames N", "(default 12)"}));
  CHECK(help.has_line({"--cost peak|leaked|allocated|allocations|temporary|live"}));
  CHECK(help.has_line({"--min-size SIZE"}));
  CHECK(help.has_line({"--from TIME"}));
  const Outcome page = run({"manual", "report"});
  CHECK(page.has_line({"\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIFILE\\fR"}));
  CHECK(page.has_line({"\\fB\\-\\-top\\fR \\fIN\\fR"}));
  CHECK(page.has_line({"\\fB\\-\\-cost\\fR \\fIpeak|leaked|allocated|allocations|temporary|live\\fR"}));
}

TEST_CASE("export has no manual page; each export format has one") {
  const Outcome list = run({"manual", "--list"});
  CHECK(("\n" + list.out).find("\nheapprof-export\n") == std::string::npos);
  for (const char* format :
       {"heaptrack", "pprof", "speedscope", "massif", "dhat", "callgrind", "firefox", "perfetto", "ndjson"})
    CHECK(("\n" + list.out).find(std::string("\nheapprof-export-") + format + "\n") != std::string::npos);
}

TEST_CASE("the usage of an export format has several traces only if it takes several") {
  const auto usage = [](const std::string& format, const std::string& traces) {
    return "Usage: heapprof export " + format + " [options] " + traces + "\n";
  };
  for (const char* format : {"heaptrack", "massif", "dhat", "firefox", "perfetto"}) {
    INFO(format);
    const Outcome help = run({"export", format, "--help"});
    CHECK(help.out.find(usage(format, "[TRACE]")) != std::string::npos);
    CHECK(help.out.find("or several") == std::string::npos);
    const Outcome refused = run({"export", format, "a.heapprof", "b.heapprof", "-o", "out"});
    CHECK(refused.status == 2);
    CHECK(refused.err.find("is for one recording") != std::string::npos);
    CHECK(refused.err.find("or use export pprof, speedscope or callgrind") != std::string::npos);
  }
  for (const char* format : {"pprof", "speedscope", "callgrind", "ndjson", "csv", "sqlite", "rows"}) {
    INFO(format);
    CHECK(run({"export", format, "--help"}).out.find(usage(format, "[TRACE...]")) != std::string::npos);
  }
}

TEST_CASE("completions offer files for options that expect a file, and the values of the others") {
  const Outcome bash = run({"completions", "bash"});
  CHECK(bash.has_line({"'report -o' | 'report --output')", "compgen -f"}));
  CHECK(bash.has_line({"'leaks --sort')", "compgen -W 'growth bytes blocks age'"}));
  CHECK(bash.has_line({"'report --top') return"}));                          // a number: no completions
  CHECK(bash.has_line({"'record -o' | 'record --output')", "compgen -f"}));  // record has its own option parser
  CHECK(bash.has_line({"'record --log')", "off error warn info debug"}));
}

TEST_CASE("the help of a command reads no trace, on either side of the command, and is printed without an error") {
  const KnownTrace trace;
  const std::filesystem::path before = std::filesystem::current_path();
  const std::filesystem::path directory = trace.path() + ".directory";
  std::filesystem::create_directory(directory);
  std::filesystem::copy_file(trace.path(), directory / "known.heapprof");
  std::filesystem::current_path(directory);
  // bundle has a required option.
  for (const char* command : {"report", "bundle"}) {
    INFO(command);
    const Outcome after_command = run({command, "--help"});
    const Outcome before_command = run({"--help", command});
    CHECK(before_command.status == 0);
    CHECK(before_command.err == "");
    CHECK(before_command.out == after_command.out);
  }
  std::filesystem::current_path(before);
  std::filesystem::remove_all(directory);
}
