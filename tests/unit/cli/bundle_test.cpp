// heapprof bundle: a copy of the trace that contains its function names.
#include <catch2/catch.hpp>

#include <filesystem>

#include "tests/support/running_trace.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"
#include "tests/unit/cli/libc_frame.h"

using namespace heapprof::test;

TEST_CASE("a bundle has the figures of its trace, which is unchanged") {
  const KnownTrace trace;
  const std::string bytes = read_file(trace.path());
  const TemporaryFile bundle;
  const Outcome outcome = run({"bundle", trace.path(), "-o", bundle.path()});
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "");
  CHECK(outcome.err.find("0 of 4") != std::string::npos);  // no function has a name
  CHECK(read_file(trace.path()) == bytes);
  CHECK(read_file(bundle.path()).size() > bytes.size());
  const Outcome report = run({"report", bundle.path(), "--json"});
  CHECK(report.status == 0);
  CHECK(report.at("/heap") == run({"report", trace.path(), "--json"}).at("/heap"));
}

TEST_CASE("a bundle has the arguments of the program only if asked for, and says so") {
  const KnownTrace trace;
  const std::string bytes = read_file(trace.path());
  const TemporaryFile bundle;
  const Outcome without = run({"bundle", trace.path(), "-o", bundle.path()});
  CHECK(without.err.find("it holds no source text (--sources includes it)") != std::string::npos);
  CHECK(without.err.find("it holds no command-line arguments (--command-line includes them)") != std::string::npos);
  CHECK(bytes.find("--fast") != std::string::npos);
  CHECK(read_file(bundle.path()).find("--fast") == std::string::npos);
  const Outcome info = run({"info", bundle.path(), "--json"});
  CHECK(info.at("/command_line") == R"(["demo"])");
  CHECK(info.at("/command_line_omitted") == "true");
  CHECK(run({"info", bundle.path()}).has_line({"command line", "demo (arguments left out)"}));

  const Outcome with = run({"bundle", trace.path(), "-o", bundle.path(), "--command-line"});
  CHECK(with.err.find("it holds the arguments of the program") != std::string::npos);
  CHECK(read_file(bundle.path()).substr(0, bytes.size()) == bytes);
  CHECK(run({"info", bundle.path(), "--json"}).at("/command_line_omitted") == "false");
}

TEST_CASE("bundle and compact say that they replaced a recording") {
  const KnownTrace trace;
  for (const char* command : {"bundle", "compact"}) {
    INFO(command);
    const TemporaryFile copy;
    const std::string message = copy.path() + ": replaced the recording of that name";
    const Outcome first = run({command, trace.path(), "-o", copy.path()});
    CHECK(first.status == 0);
    CHECK(first.err.find(message) == std::string::npos);
    const Outcome second = run({command, trace.path(), "-o", copy.path()});
    CHECK(second.status == 0);
    CHECK(second.err.find(message) != std::string::npos);
  }
}

TEST_CASE("a bundle names functions where their library is missing") {
  const TemporaryFile trace;
  REQUIRE(write_libc_frame(trace.path()) != "");
  const TemporaryFile bundle;
  REQUIRE(run({"bundle", trace.path(), "-o", bundle.path()}).status == 0);
  const auto name_elsewhere = [](const std::string& path) {
    return run({"report", path, "--json", "--sysroot", kNoFile}).at("/top/0/stack/0/function");
  };
  CHECK(name_elsewhere(trace.path()) == "");
  CHECK(name_elsewhere(bundle.path()).find("getenv") != std::string::npos);
}

TEST_CASE("bundle -o - writes the copy to standard output") {
  const KnownTrace trace;
  const TemporaryFile bundle;
  REQUIRE(run({"bundle", trace.path(), "-o", bundle.path()}).status == 0);
  CHECK(run({"bundle", trace.path(), "-o", "-"}).out == read_file(bundle.path()));
}

TEST_CASE("a bundle is readable by the user only, and is not compressed whatever its name") {
  const KnownTrace trace;
  const TemporaryFile plain, packed(".gz");
  for (const TemporaryFile* const file : {&plain, &packed}) {
    std::filesystem::remove(file->path());
    REQUIRE(run({"bundle", trace.path(), "-o", file->path()}).status == 0);
    const auto permissions = std::filesystem::status(file->path()).permissions();
    CHECK(permissions == (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
  CHECK(read_file(packed.path()) == read_file(plain.path()));
}

TEST_CASE("bundle to a full device is an error, and the device is not removed") {
  const KnownTrace trace;
  const TemporaryFile link;
  std::filesystem::remove(link.path());
  std::filesystem::create_symlink("/dev/full", link.path());
  const Outcome outcome = run({"bundle", trace.path(), "-o", link.path()});
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find(link.path() + ": cannot be written: No space left on device") != std::string::npos);
  CHECK(std::filesystem::is_symlink(link.path()));
}

TEST_CASE("bundle refuses a running program's trace, a missing one, and the trace as output") {
  const KnownTrace trace;
  const std::string bytes = read_file(trace.path());
  CHECK(run({"bundle", trace.path(), "-o", trace.path()}).status == 1);
  CHECK(read_file(trace.path()) == bytes);
  CHECK(run({"bundle", kNoFile, "-o", "-"}).status == 1);
  CHECK(run({"bundle", trace.path(), "-o", kNoFile}).status == 1);
  CHECK(run({"bundle", trace.path()}).status == 2);

  const RunningTrace running;
  for (const char* command : {"bundle", "index"}) {
    const Outcome refused = run({command, running.path(), "-o", "/dev/null/x"});
    CHECK(refused.status == 1);
    CHECK(refused.err.find(running.path()) != std::string::npos);
  }
}
