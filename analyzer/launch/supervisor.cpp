#include "analyzer/launch/supervisor.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

#include "analyzer/base/base_name.h"
#include "analyzer/base/process_stat.h"
#include "analyzer/launch/group_signal_detector.h"

namespace heapprof::launch {

namespace {

/// Reads /proc/self, as the recorder does: /proc may be that of another pid namespace (unshare --pid without
/// --mount-proc), where our pid is another process.
std::uint64_t own_start_time() {
  const std::optional<ProcessStat> stat = read_process_stat("self");
  return stat ? stat->start_time : 0;
}

bool is_stopped(int pid) {
  const std::optional<ProcessStat> stat = read_process_stat(std::to_string(pid));
  return stat && stat->state == 'T';
}

bool ignores(int pid, int signal) { return contains_signal(read_signals(std::to_string(pid), "SigIgn"), signal); }

/// The signals that are forwarded: all but those that the kernel raises for faults of this process, which kill it
/// even when they are blocked.
sigset_t forwarded_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&set, signal);
  return set;
}

const std::string kNameOption = "--argv0";

/// Whether the loader knows the option; to one that does not, it is the name of a program. glibc's know it since
/// 2.33. The loader is taken to be of the same version as the library of this program.
bool knows_name_option(const std::string& loader) {
  if (!base_name(loader).starts_with("ld-linux")) return true;
  unsigned major = 0, minor = 0;
  return std::sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor) == 2 &&
         std::pair(major, minor) >= std::pair(2u, 33u);
}

class Supervisor {
  using Clock = std::chrono::steady_clock;

 public:
  Supervisor(int pid, const sigset_t& signals, GroupSignalDetector& group_signals)
      : pid_(pid), signals_(signals), group_signals_(group_signals) {}

  const ChildWork& child_work() const noexcept { return child_work_; }

  /// Returns when the child has ended, with the status of waitpid.
  int wait() {
    for (;;) {
      siginfo_t info;
      const int signal = sigwaitinfo(&signals_, &info);
      if (signal < 0) continue;
      if (signal == SIGCHLD) {
        note_child_work();
        int status = 0;
        while (waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0) {
          if (WIFEXITED(status) || WIFSIGNALED(status)) return status;
          note_stop(WIFSTOPPED(status) ? WSTOPSIG(status) : 0);
        }
      } else {
        handle(signal, info);
      }
      if (stops_with_child()) stop_self();
    }
  }

 private:
  /// The kernel forgets the times of a process when its parent takes its status.
  void note_child_work() {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_)
      return;
    const std::optional<ProcessStat> stat = read_process_stat(std::to_string(pid_));
    if (!stat || stat->state != 'Z') return;  // /proc may be that of another pid namespace
    const long ticks_per_second = sysconf(_SC_CLK_TCK);
    const std::uint64_t tick_ns =
        1'000'000'000 / static_cast<std::uint64_t>(ticks_per_second > 0 ? ticks_per_second : 100);
    child_work_ = {stat->children_faults != 0, stat->own_ticks * tick_ns, stat->children_ticks * tick_ns};
  }

  /// A program of which the shell does not know can leave the group, which the leader of a job's group cannot:
  /// setpgid(0, 0), setsid(). Then it gets none of the group's signals.
  bool has_left_group() const {
    const pid_t group = getpgid(pid_);
    return group >= 0 && group != getpgrp();
  }

  /// `signal` stopped the child; 0: it was continued.
  void note_stop(int signal) {
    stopped_by_ = signal;
    if (signal == 0) stop_seen_.reset();
    // A stop signal of the terminal, which did not come to this process.
    else if (signal != SIGSTOP && has_left_group()) stop_seen_ = Clock::now();
  }

  /// Whether the stop of the child is one of the job. It is for the child alone if no stop signal came to this
  /// process, or none that the child does not ignore. A handler for one may end with SIGSTOP, soon.
  bool stops_with_child() const {
    return stopped_by_ != 0 && stop_seen_ &&
           (stopped_by_ != SIGSTOP || Clock::now() - *stop_seen_ < std::chrono::seconds(10));
  }

  void handle(int signal, const siginfo_t& info) {
    if ((signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) && !ignores(pid_, signal))
      stop_seen_ = Clock::now();
    // The terminal (SI_KERNEL) signals the group. This process signals itself when it writes to a closed pipe. The
    // child signals its group, or its parent process as if that were a shell.
    const bool sent_by_process = info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE;
    if (sent_by_process && (info.si_pid == getpid() || info.si_pid == pid_)) return;
    if (!has_left_group()) {
      if (!sent_by_process) return;
      // A shell that continues a job continues its group.
      if (signal == SIGCONT && continued_ && !is_stopped(pid_)) {
        continued_ = false;
        return;
      }
      // kill(-group): the child has received it.
      if (group_signals_.was_sent_to_group(signal)) return;
    } else if (!sent_by_process && signal == SIGHUP && getsid(pid_) != getsid(0)) {
      return;  // its terminal is not the one that was closed: setsid() is for that
    }
    if (info.si_code == SI_QUEUE) {
      sigqueue(pid_, signal, info.si_value);
    } else {
      kill(pid_, signal);
    }
  }

  /// The shell waits for this process, not for the child: it takes the terminal back when this process stops.
  void stop_self() {
    kill(getpid(), SIGSTOP);  // returns when this process is continued
    stop_seen_.reset();
    continued_ = true;
    if (!is_stopped(pid_)) stopped_by_ = 0;
  }

  const int pid_;
  const sigset_t signals_;
  GroupSignalDetector& group_signals_;
  ChildWork child_work_;
  int stopped_by_ = 0;                          ///< the signal that stopped the child; 0: it runs
  std::optional<Clock::time_point> stop_seen_;  ///< when this process received a stop signal
  bool continued_ = false;  ///< the SIGCONT that ended the stop of this process may still be pending
};

[[noreturn]] void report_error(int report_fd) {
  const int error = errno;
  if (write(report_fd, &error, sizeof error) != sizeof error) _exit(126);
  _exit(127);
}

[[noreturn]] void execute(const std::string& path, const std::vector<std::string>& arguments,
                          const std::vector<std::pair<std::string, std::string>>& variables,
                          const Privileges& privileges, int report_fd) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  const std::uint64_t start_time = own_start_time();
  if (write(report_fd, &start_time, sizeof start_time) != sizeof start_time) _exit(126);
  const std::string session = std::to_string(getpid()) + "." + std::to_string(start_time);
  setenv("HEAPPROF_SESSION", session.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (!privileges.loader.empty()) {
    // The loader would search a name without a slash in its library path.
    const std::string program = path.find('/') == std::string::npos ? "./" + path : path;
    setenv("HEAPPROF_CAPABILITIES", capabilities_variable(privileges).c_str(), 1);
    const std::string name = argv[0];
    argv[0] = const_cast<char*>(program.c_str());
    if (knows_name_option(privileges.loader))
      for (const std::string* option : {&name, &kNameOption})
        argv.insert(argv.begin(), const_cast<char*>(option->c_str()));
    argv.insert(argv.begin(), const_cast<char*>(privileges.loader.c_str()));
    if (take_privileges(privileges)) execv(privileges.loader.c_str(), argv.data());
    report_error(report_fd);
  }
  execv(path.c_str(), argv.data());
  if (errno == ENOEXEC) {
    // execvp(3) and shells run a text without "#!" with sh.
    argv[0] = const_cast<char*>(path.c_str());
    argv.insert(argv.begin(), const_cast<char*>("sh"));
    execv("/bin/sh", argv.data());
  }
  report_error(report_fd);
}

}  // namespace

ProcessResult run_process(const std::string& path, const std::vector<std::string>& arguments,
                          const std::vector<std::pair<std::string, std::string>>& variables,
                          const Privileges& privileges) {
  ProcessResult result;
  // The child writes its start time, then errno; a successful exec closes the pipe instead.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    result.start_error = errno;
    return result;
  }
  const sigset_t signals = forwarded_signals();
  sigset_t mask_before;
  struct sigaction child_action_before {};
  sigprocmask(SIG_BLOCK, &signals, &mask_before);
  // A parent may have set SIGCHLD to be ignored, and then waitpid() finds no child.
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &default_action, &child_action_before);

  const int pid = fork();
  if (pid < 0) {
    result.start_error = errno;
    close(report[0]);
    close(report[1]);
    return result;
  }
  if (pid == 0) {
    sigaction(SIGCHLD, &child_action_before, nullptr);
    sigprocmask(SIG_SETMASK, &mask_before, nullptr);
    execute(path, arguments, variables, privileges, report[1]);
  }
  close(report[1]);
  result.pid = pid;
  const auto receive = [&](void* what, std::size_t bytes) {
    ssize_t size;
    while ((size = read(report[0], what, bytes)) < 0 && errno == EINTR) {
    }
    return size == static_cast<ssize_t>(bytes);
  };
  int error = 0;
  const bool failed = receive(&result.start_time, sizeof result.start_time) && receive(&error, sizeof error);
  close(report[0]);
  const int status = [&] {
    GroupSignalDetector group_signals;
    Supervisor supervisor(pid, signals, group_signals);
    const int ended = supervisor.wait();
    result.child_work = supervisor.child_work();
    return ended;
  }();
  // Drops the signals that were sent to the program while it ended. From here on signals interrupt this process.
  const timespec now{};
  while (sigtimedwait(&signals, nullptr, &now) > 0) {
  }
  sigaction(SIGCHLD, &child_action_before, nullptr);
  sigprocmask(SIG_SETMASK, &mask_before, nullptr);
  if (failed) {
    result.start_error = error;
    return result;
  }
  result.started = true;
  result.signaled = WIFSIGNALED(status);
  result.code = result.signaled ? WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace heapprof::launch
