// run_as_user(): checks with the privileges of the user as which a program will run.
#include "analyzer/launch/capabilities.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "tests/support/skip_case.h"

using namespace heapprof::launch;

namespace {

/// The user of this process, or nobody if it is root.
Privileges as_another_user() {
  Privileges privileges;
  privileges.as_user = true;
  privileges.user = geteuid() == 0 ? 65534 : geteuid();
  privileges.group = getegid() == 0 ? 65534 : getegid();
  if (geteuid() == 0) privileges.groups = {privileges.group};
  return privileges;
}

/// Whether `check` holds in a child process, which may change its limits and its user.
bool holds_in_a_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool lower_limit(decltype(RLIMIT_NOFILE) resource, rlim_t value) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return false;
  limit.rlim_cur = value;
  return setrlimit(resource, &limit) == 0;
}

/// Whether run_as_user() fails for `reason`, and runs nothing in this process.
bool is_refused(const std::string& reason) {
  const pid_t self = getpid();
  bool ran_here = false;
  const std::string result = run_as_user(as_another_user(), [&] {
    ran_here |= getpid() == self;
    return std::string();
  });
  return !ran_here && result.find(reason) != result.npos;
}

}  // namespace

TEST_CASE("run_as_user runs in another process, as the user") {
  if (geteuid() != 0) return heapprof::test::skip_case("setgroups() needs root");
  const Privileges privileges = as_another_user();
  CHECK(run_as_user(privileges, [] { return std::to_string(getuid()) + ":" + std::to_string(getegid()); }) ==
        "65534:65534");
  CHECK(run_as_user(privileges, [] { return std::string(); }).empty());
}

TEST_CASE("run_as_user does not run as root when there is no pipe") {
  CHECK(holds_in_a_child([] { return lower_limit(RLIMIT_NOFILE, 0) && is_refused("Too many open files"); }));
}

TEST_CASE("run_as_user does not run as root when there is no process") {
  CHECK(holds_in_a_child([] {
    // The limit on processes does not apply to root.
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return false;
    return lower_limit(RLIMIT_NPROC, 0) && is_refused("Resource temporarily unavailable");
  }));
}

TEST_CASE("run_as_user fails when its process is killed") {
  if (geteuid() != 0) return heapprof::test::skip_case("setgroups() needs root");
  CHECK_FALSE(run_as_user(as_another_user(), [] {
                raise(SIGKILL);
                return std::string();
              }).empty());
}
