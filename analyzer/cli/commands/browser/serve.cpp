// heapprof serve: the whole recording in a browser. The server itself is in analyzer/serve.
#include <fcntl.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "analyzer/cli/commands/browser/answer_subject.h"
#include "analyzer/cli/commands/commands.h"
#include "analyzer/cli/commands/shared/named_traces.h"
#include "analyzer/cli/commands/shared/run_on_trace.h"
#include "analyzer/cli/commands/shared/trace_state.h"
#include "analyzer/cli/options/version.h"
#include "analyzer/render/units.h"
#include "analyzer/serve/server.h"
#include "analyzer/trace/mailbox.h"

namespace heapprof::cli {
namespace {

/// 0: the trace cannot be read any more.
std::uint64_t elapsed_ns(const std::string& path) {
  try {
    const trace::Mailbox mailbox(path);
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    const std::uint64_t now_ns =
        static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
    return now_ns - std::min(now_ns, mailbox.header().start_monotonic_ns);
  } catch (const trace::TraceError&) {
    return 0;
  }
}

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && value[0] != '\0';
}

/// "user@host", and the port of its ssh server unless it is the usual one: what `ssh` on the user's machine needs.
std::string ssh_target() {
  std::istringstream connection(std::getenv("SSH_CONNECTION"));
  std::string client, client_port, server, port;
  connection >> client >> client_port >> server >> port;
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') server.copy(host, sizeof host - 1);
  const passwd* const user = ::getpwuid(::getuid());
  return (port.empty() || port == "22" ? "" : "-p " + port + " ") +
         (user == nullptr ? "" : std::string(user->pw_name) + "@") + host;
}

/// Opens the address in the desktop's browser. The command lines of processes can be read by every user, so the
/// browser gets the name of a file that only this user can read, and that leads to the address.
class BrowserPage {
 public:
  explicit BrowserPage(const std::string& url) {
    const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
    const std::string directory = runtime == nullptr || runtime[0] == '\0' ? "/tmp" : runtime;
    path_ = directory + "/heapprof-XXXXXX.html";
    const int descriptor = ::mkostemps(path_.data(), 5, O_CLOEXEC);  // mode 0600
    if (descriptor < 0) {
      error_ = directory + ": " + std::strerror(errno);
      path_.clear();
      return;
    }
    const std::string text =
        "<!doctype html><meta charset=\"utf-8\"><title>heapprof</title>"
        "<meta http-equiv=\"refresh\" content=\"0;url=" +
        url + "\">\n";
    const bool written = ::write(descriptor, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(descriptor);
    if (written) open();
    else error_ = path_ + ": cannot be written";
  }
  ~BrowserPage() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  BrowserPage(const BrowserPage&) = delete;
  BrowserPage& operator=(const BrowserPage&) = delete;

  /// Why the browser was not started; empty: it was.
  const std::string& error() const noexcept { return error_; }

  /// After a child of this process has ended: why xdg-open failed; empty: it did not, or still runs. Does not wait.
  std::string reason_of_failure() {
    int status = 0;
    if (opener_ < 0 || ::waitpid(opener_, &status, WNOHANG) != opener_) return {};
    opener_ = -1;
    if (WIFSIGNALED(status)) return "xdg-open was ended by signal " + std::to_string(WTERMSIG(status));
    if (WEXITSTATUS(status) == 0) return {};
    return "xdg-open failed with exit status " + std::to_string(WEXITSTATUS(status));
  }

 private:
  /// Nothing waits for xdg-open: it may be as long there as the browser, in a session of its own, and outlive this
  /// process. If it cannot be executed, the reason comes through a pipe, which closes when it is executed.
  void open() {
    int failure[2];
    if (::pipe2(failure, O_CLOEXEC) != 0) {
      error_ = std::string("xdg-open: ") + std::strerror(errno);
      return;
    }
    const pid_t child = ::fork();
    if (child == 0) {
      ::setsid();
      const int nothing = ::open("/dev/null", O_RDWR);
      for (const int descriptor : {0, 1, 2}) ::dup2(nothing, descriptor);
      ::execlp("xdg-open", "xdg-open", path_.c_str(), static_cast<char*>(nullptr));
      const int reason = errno;
      ::_exit(::write(failure[1], &reason, sizeof reason) == sizeof reason ? 127 : 126);
    }
    int reason = child < 0 ? errno : 0;
    ::close(failure[1]);
    if (child > 0) {
      // The server's signals may arrive already.
      ssize_t bytes = 0;
      while ((bytes = ::read(failure[0], &reason, sizeof reason)) < 0 && errno == EINTR) {
      }
      if (bytes != sizeof reason) {
        reason = 0;
        opener_ = child;
      } else {
        while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
        }
      }
    }
    ::close(failure[0]);
    if (reason == ENOENT) error_ = "there is no xdg-open in PATH";
    else if (reason != 0) error_ = std::string("xdg-open: ") + std::strerror(reason);
  }

  std::string path_, error_;
  pid_t opener_ = -1;  ///< xdg-open, until its end was seen
};

int serve_traces(const ServeOptions& options) {
  serve::ServerSettings settings;
  settings.address = options.address;
  settings.port = options.port;
  settings.subject = answer_subject(traces_named(options.traces), options.answers);
  settings.version = printed_version;
  const std::vector<std::string> traces = settings.subject.traces;
  settings.state_of = [traces](std::size_t n) { return state_of(traces[n]); };
  settings.index_words = [traces](std::size_t n) { return index_words(traces[n]); };
  settings.is_running = [traces](std::size_t n) { return is_running(traces[n]); };
  settings.elapsed_ns = [traces](std::size_t n) { return elapsed_ns(traces[n]); };
  serve::Server server(std::move(settings));
  const std::string url = server.url();
  std::printf("%s\n", url.c_str());
  if (std::fflush(stdout) != 0) throw OutputError("standard output: the address cannot be written");
  if (options.address != "127.0.0.1" && options.address != "::1")
    print_message("warning: " + options.address +
                  " can be reached from the network, without encryption: whoever reads the address or its traffic "
                  "can read the recordings");
  const std::string port = std::to_string(server.port());
  if (is_set("SSH_CONNECTION"))
    print_message("on your machine, type: ssh -L " + port + ":" + server.host() + ":" + port + " " + ssh_target() +
                  "   and open " +
                  (server.host() == "127.0.0.1" ? "the address above"
                                                : "http://127.0.0.1:" + port + url.substr(url.rfind('/'))));
  std::optional<BrowserPage> page;
  const auto report_failure = [&page](const std::string& reason) {
    page.reset();
    print_message("no browser was opened: " + reason + "; open the address above");
  };
  if (options.open && !is_set("SSH_CONNECTION")) {
    std::string reason = "DISPLAY and WAYLAND_DISPLAY are not set";
    if (is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")) reason = page.emplace(url).error();
    if (!reason.empty()) report_failure(reason);
  }
  if (page)
    server.on_end_of_child([&] {
      const std::string reason = page ? page->reason_of_failure() : std::string();
      // xdg-open may end with the browser, long after it has shown the page.
      if (!reason.empty() && !server.has_sent_page()) report_failure(reason);
    });
  print_message("serving " +
                (traces.size() == 1 ? traces.front() : render::exact_number(traces.size()) + " recordings") +
                "; Ctrl-C ends it");
  server.run();
  return 0;
}

}  // namespace

int run_serve(const ServeOptions& options) {
  return guarded(options.traces.front(), [&] { return serve_traces(options); });
}

}  // namespace heapprof::cli
