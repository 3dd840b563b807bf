#include "analyzer/launch/group_signal_detector.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <string>

#include "analyzer/base/process_stat.h"

namespace heapprof::launch {

namespace {

/// How long an answer is waited for before the state of the idle process is looked at, and at all.
constexpr int kStepMs = 50;
constexpr std::chrono::seconds kLongest{10};

/// The idle process: clears its pending signals for each byte that it receives, and sends the byte back.
[[noreturn]] void idle(int socket, int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  prctl(PR_SET_NAME, "heapprof-signal");
  // The reader of an inherited pipe would wait until this process closes it, too.
  const long limit = sysconf(_SC_OPEN_MAX);
  for (int fd = 0; fd < (limit > 0 && limit < 4096 ? limit : 4096); ++fd)
    if (fd != socket) close(fd);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  char byte;
  while (read(socket, &byte, 1) == 1) {
    const timespec now{};
    while (sigtimedwait(&all, nullptr, &now) > 0) {
    }
    if (write(socket, &byte, 1) != 1) break;
  }
  _exit(0);
}

}  // namespace

GroupSignalDetector::GroupSignalDetector() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  const int parent = getpid();
  pid_ = fork();
  if (pid_ == 0) idle(ends[1], parent);
  close(ends[1]);
  socket_ = ends[0];
}

GroupSignalDetector::~GroupSignalDetector() {
  if (socket_ >= 0) close(socket_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

/// Returns whether the idle process has answered. It may wait for the processor: until it answers, the signals that
/// it has would be taken for later ones, and it would clear later ones. But if it was stopped with its group, it
/// answers when it is continued, which may be never.
bool GroupSignalDetector::wait_for_answer() const {
  const auto deadline = std::chrono::steady_clock::now() + kLongest;
  for (;;) {
    const bool is_last = std::chrono::steady_clock::now() >= deadline;
    pollfd answer{socket_, POLLIN, 0};
    if (poll(&answer, 1, kStepMs) == 1) return true;
    const auto stat = read_process_stat(std::to_string(pid_));
    if (is_last || !stat || stat->state == 'T') return false;
  }
}

bool GroupSignalDetector::was_sent_to_group(int signal) {
  if (pid_ <= 0) return false;
  if (!contains_signal(read_signals(std::to_string(pid_), "ShdPnd"), signal)) return false;
  // Clears what is pending, so that it is not taken for the next signal. An answer to an earlier byte that came too
  // late is dropped first.
  char byte = 0;
  while (recv(socket_, &byte, 1, MSG_DONTWAIT) == 1) {
  }
  if (send(socket_, &byte, 1, MSG_NOSIGNAL) == 1 && wait_for_answer() && read(socket_, &byte, 1) != 1) pid_ = -1;
  return true;
}

}  // namespace heapprof::launch
