#include "analyzer/launch/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include "analyzer/launch/group_signal_detector.h"

namespace heapprof::launch {

namespace {

/// The fields of /proc/PROCESS/stat from the third one, the state, on. The second, the name, may hold anything, so
/// they are counted from its last parenthesis. Empty: there is no such process.
std::vector<std::string> stat_fields(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

/// By "self", as the recorder asks: /proc may be that of another pid namespace (unshare --pid without --mount-proc),
/// where our numbers are other processes'.
std::uint64_t own_start_time() {
  const std::vector<std::string> fields = stat_fields("self");
  return fields.size() > 22 - 3 ? std::strtoull(fields[22 - 3].c_str(), nullptr, 10) : 0;
}

bool is_stopped(int pid) {
  const std::vector<std::string> fields = stat_fields(std::to_string(pid));
  return !fields.empty() && fields[0] == "T";
}

/// Signals that can be passed on. Not those that the kernel raises for our own faults: blocked, they would
/// kill us anyway.
sigset_t forwarded_signals() {
  sigset_t set;
  sigfillset(&set);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&set, signal);
  return set;
}

const std::string kNameOption = "--argv0";  // glibc 2.33 and later

class Supervisor {
 public:
  Supervisor(int pid, const sigset_t& signals, GroupWitness& witness)
      : pid_(pid), signals_(signals), witness_(witness) {}

  /// Returns when the child has ended, with what waitpid tells.
  int wait() {
    for (;;) {
      siginfo_t info;
      const int signal = sigwaitinfo(&signals_, &info);
      if (signal < 0) continue;
      if (signal == SIGCHLD) {
        int status = 0;
        while (waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) > 0) {
          if (WIFEXITED(status) || WIFSIGNALED(status)) return status;
          child_stopped_ = WIFSTOPPED(status);
        }
      } else {
        handle(signal, info);
      }
      if (child_stopped_ && stop_seen_) stop_ourselves();
    }
  }

 private:
  void handle(int signal, const siginfo_t& info) {
    if (signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) stop_seen_ = true;
    // From the terminal (SI_KERNEL), the whole group gets it; our own come from writing to closed pipes; the
    // child's are for its group or for a parent that could be any shell.
    const bool sent_to_us = info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE;
    if (!sent_to_us || info.si_pid == getpid() || info.si_pid == pid_) return;
    // Whoever continues a job continues its group.
    if (signal == SIGCONT && continued_ && !is_stopped(pid_)) {
      continued_ = false;
      return;
    }
    // kill(-group): the child has it already.
    if (witness_.has_got(signal)) return;
    if (info.si_code == SI_QUEUE) {
      sigqueue(pid_, signal, info.si_value);
    } else {
      kill(pid_, signal);
    }
  }

  /// The shell waits for us, not for the child: it must see us stop, or it does not take the terminal back.
  void stop_ourselves() {
    kill(getpid(), SIGSTOP);  // returns when something continues us
    stop_seen_ = false;
    continued_ = true;
    child_stopped_ = is_stopped(pid_);
  }

  const int pid_;
  const sigset_t signals_;
  GroupWitness& witness_;
  bool child_stopped_ = false;
  bool stop_seen_ = false;  ///< we were told to stop as well: it was not meant for the child alone
  bool continued_ = false;  ///< the SIGCONT that ended our stop may still be waiting
};

[[noreturn]] void fail_to_become(int report_fd) {
  const int error = errno;
  if (write(report_fd, &error, sizeof error) != sizeof error) _exit(126);
  _exit(127);
}

[[noreturn]] void become(const std::string& path, const std::vector<std::string>& arguments,
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
    // The kernel's own: what a name without a slash would be to the loader is another matter.
    const std::string program = path.find('/') == std::string::npos ? "./" + path : path;
    setenv("HEAPPROF_CAPABILITIES", capabilities_variable(privileges).c_str(), 1);
    const std::string name = argv[0];
    argv[0] = const_cast<char*>(program.c_str());
    for (const std::string* option : {&name, &kNameOption, &privileges.loader})
      argv.insert(argv.begin(), const_cast<char*>(option->c_str()));
    if (take_privileges(privileges)) execv(privileges.loader.c_str(), argv.data());
    fail_to_become(report_fd);
  }
  execv(path.c_str(), argv.data());
  if (errno == ENOEXEC) {
    // A text without "#!", which execvp(3) and shells give to sh.
    argv[0] = const_cast<char*>(path.c_str());
    argv.insert(argv.begin(), const_cast<char*>("sh"));
    execv("/bin/sh", argv.data());
  }
  fail_to_become(report_fd);
}

}  // namespace

ProcessResult run_process(const std::string& path, const std::vector<std::string>& arguments,
                          const std::vector<std::pair<std::string, std::string>>& variables,
                          const Privileges& privileges) {
  ProcessResult result;
  // Carries the child's start time, and errno unless a successful exec closes it.
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    result.start_error = errno;
    return result;
  }
  const sigset_t signals = forwarded_signals();
  sigset_t mask_before;
  struct sigaction child_action_before {};
  sigprocmask(SIG_BLOCK, &signals, &mask_before);
  // Whoever started us may ignore SIGCHLD, and then there is nothing to wait for.
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
    become(path, arguments, variables, privileges, report[1]);
  }
  close(report[1]);
  result.pid = pid;
  const auto receive = [&](void* what, std::size_t bytes) {
    ssize_t size;
    while ((size = read(report[0], what, bytes)) < 0 && errno == EINTR) {}
    return size == static_cast<ssize_t>(bytes);
  };
  int error = 0;
  const bool failed = receive(&result.start_time, sizeof result.start_time) && receive(&error, sizeof error);
  close(report[0]);
  const int status = [&] {
    GroupWitness witness;
    return Supervisor(pid, signals, witness).wait();
  }();
  // What was sent while it ended was for it. From here on we can be interrupted again.
  const timespec now{};
  while (sigtimedwait(&signals, nullptr, &now) > 0) {}
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
