// What a checked build does at a difference: each process writes a line to the file that they share, and ends.
#include "preload/sys/difference.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/temporary_file.h"

using namespace heapprof;

namespace {

/// The wait status of a child that reports a difference. Its standard error is the file `standard_error`.
int status_after(const char* what, const std::string& file, const std::string& standard_error) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    // Catch would report the signal, and a core file would be of no use.
    std::signal(SIGILL, SIG_DFL);
    std::signal(SIGTRAP, SIG_DFL);
    const rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    if (std::freopen(standard_error.c_str(), "a", stderr) == nullptr) ::_exit(1);
    sys::append_differences_to(file.c_str());
    sys::report_difference(what);
  }
  int status = 0;
  REQUIRE(child > 0);
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

std::string contents(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("Processes append their differences to the file that they share, and end") {
  const test::TemporaryFile file(".log"), standard_error(".txt");
  for (const char* const what : {"first", "second"})
    CHECK(WIFSIGNALED(status_after(what, file.path(), standard_error.path())));
  CHECK(contents(file.path()) == "heapprof: difference: first\nheapprof: difference: second\n");
  CHECK(contents(standard_error.path()).empty());
}

TEST_CASE("Without a file, or if it cannot be opened, a difference is written to standard error") {
  for (const char* const file : {"", "/dev/null/no-such-file"}) {
    const test::TemporaryFile standard_error(".txt");
    CHECK(WIFSIGNALED(status_after("a stack", file, standard_error.path())));
    CHECK(contents(standard_error.path()) == "heapprof: difference: a stack\n");
  }
}
