// Questions that are asked in the name of the user that a program is going to run as.
#include "analyzer/launch/capabilities.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>

using namespace heapprof::launch;

namespace {

/// This process's own user, or nobody where this is root: to become that user needs no privilege beyond these.
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

/// Asks a question that nobody but another process may answer. True: this one did not, and a reason is given.
bool is_refused(const std::string& reason) {
  const pid_t asking = getpid();
  bool asked_here = false;
  const std::string answer = ask_as_user(as_another_user(), [&] {
    asked_here |= getpid() == asking;
    return std::string();
  });
  return !asked_here && answer.find(reason) != answer.npos;
}

}  // namespace

TEST_CASE("a question is asked in another process, as the user") {
  if (geteuid() != 0) return;  // setgroups() is root's
  const Privileges privileges = as_another_user();
  CHECK(ask_as_user(privileges, [] { return std::to_string(getuid()) + ":" + std::to_string(getegid()); }) ==
        "65534:65534");
  CHECK(ask_as_user(privileges, [] { return std::string(); }).empty());
}

TEST_CASE("without a pipe a question is not asked in the name of root") {
  CHECK(holds_in_a_child([] { return lower_limit(RLIMIT_NOFILE, 0) && is_refused("Too many open files"); }));
}

TEST_CASE("without a process a question is not asked in the name of root") {
  CHECK(holds_in_a_child([] {
    // The limit on processes binds everybody but root.
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return false;
    return lower_limit(RLIMIT_NPROC, 0) && is_refused("Resource temporarily unavailable");
  }));
}

TEST_CASE("a question whose process is killed has no answer") {
  if (geteuid() != 0) return;
  CHECK_FALSE(ask_as_user(as_another_user(), [] {
                raise(SIGKILL);
                return std::string();
              }).empty());
}
