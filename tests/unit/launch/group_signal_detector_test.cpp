// A signal to the group is distinguished from a signal to one process, also if the idle process of the detector does
// not run for a while. tests/e2e/launcher.py sends both kinds to a launcher and its program.
#include "analyzer/launch/group_signal_detector.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <fstream>
#include <signal.h>
#include <string>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/skip_case.h"

using heapprof::launch::GroupSignalDetector;
using namespace std::chrono_literals;

namespace {

/// The first child of this process; 0: it has none.
pid_t first_child() {
  std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
  pid_t child = 0;
  return children >> child ? child : 0;
}

/// A process does not run for a second from the end of the constructor on. It is not stopped: a tracer holds it.
class Held {
 public:
  explicit Held(pid_t process) {
    thread_ = std::thread([this, process] {
      int status = 0;
      is_held_ = ::ptrace(PTRACE_SEIZE, process, nullptr, nullptr) == 0 &&
                 ::ptrace(PTRACE_INTERRUPT, process, nullptr, nullptr) == 0 &&
                 ::waitpid(process, &status, __WALL) == process;
      has_begun_ = true;
      if (!is_held_) return;
      std::this_thread::sleep_for(1s);
      ::ptrace(PTRACE_DETACH, process, nullptr, nullptr);
    });
    while (!has_begun_) std::this_thread::yield();
  }
  ~Held() { thread_.join(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  /// False: processes cannot be traced here.
  bool is_held() const { return is_held_; }

 private:
  std::atomic<bool> is_held_ = false, has_begun_ = false;
  std::thread thread_;
};

}  // namespace

TEST_CASE("A signal to the group counts once, also if the idle process gets the processor later") {
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  REQUIRE(sigprocmask(SIG_BLOCK, &signals, &before) == 0);
  REQUIRE(first_child() == 0);
  {
    GroupSignalDetector detector;
    const pid_t idle = first_child();
    REQUIRE(idle > 0);
    const Held held(idle);
    if (held.is_held()) {
      REQUIRE(::kill(idle, SIGUSR1) == 0);
      CHECK(detector.was_sent_to_group(SIGUSR1));
      CHECK_FALSE(detector.was_sent_to_group(SIGUSR1));
    } else {
      heapprof::test::skip_case("processes cannot be traced here");
    }
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
}
