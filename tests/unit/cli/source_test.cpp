// heapprof source: files and lines with their costs. Most of it needs debug information: tests/e2e/source.py.
#include <catch2/catch.hpp>

#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof::test;

TEST_CASE("source lists the files, and what has no file") {
  const KnownTrace trace;
  const Outcome files = run({"source", trace.path()});
  CHECK(files.status == 0);
  CHECK(files.has_line({"Live at the peak: 7.00 KiB in 3 blocks; shares are of this."}));
  CHECK(files.has_line({"7.00 KiB", "100%", "7.00 KiB", "100%", "(no source file known)"}));
  const Outcome json = run({"source", trace.path(), "--json"});
  CHECK(json.at("/files/0/file") == "null");
  CHECK(json.number("/files/0/self/peak_bytes") == kPeakBytes);
  CHECK(json.number("/total/leaked_bytes") == kLeakedBytes);
}

TEST_CASE("source names the reason where there is no such file or function, or no file of it") {
  const KnownTrace trace;
  const Outcome missing = run({"source", trace.path(), "parse.c"});
  CHECK(missing.status == 1);
  CHECK(missing.out.empty());
  CHECK(missing.err.find("no file and no function 'parse.c' has costs") != std::string::npos);
  const Outcome near = run({"source", trace.path(), "demo+0x30"});
  CHECK(near.err.find("names that contain it: 'demo+0x300'") != std::string::npos);
  const Outcome unknown = run({"source", trace.path(), kParseName});
  CHECK(unknown.status == 1);
  CHECK(unknown.err.find("the source file of 'demo+0x300' is not known") != std::string::npos);
  CHECK(run({"source"}).status == 2);
}

TEST_CASE("a name with control characters is not printed as it is") {
  const KnownTrace trace;
  CHECK(run({"source", trace.path(), "\x1b[31mred"}).err.find('\x1b') == std::string::npos);
}
