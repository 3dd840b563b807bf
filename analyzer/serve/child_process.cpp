#include "analyzer/serve/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace heapprof::serve {
namespace {

constexpr std::size_t kMaxErrorBytes = 16 * 1024;

/// In the child, between fork and exec: only system calls. Never returns.
/// `input`: -1: it has none.
[[noreturn]] void become(char* const* arguments, char* const* environment, int input, int output, int error,
                         pid_t parent) noexcept {
  // The child ends with its parent, also when that is killed; the parent may have ended before this call.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  if (input < 0) input = ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(error, 2) < 0) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execve("/proc/self/exe", arguments, environment);
  ::_exit(127);
}

/// A line of cli::ProgressLine.
void read_progress(std::string_view line, ChildProgress& progress) {
  using Json = nlohmann::ordered_json;
  try {
    const Json given = Json::parse(line);
    progress = {.share = std::clamp(given.at("share").get<double>(), 0.0, 1.0),
                .events = given.at("events").get<std::uint64_t>(),
                .what = given.at("what").get<std::string>(),
                .so_far = given.value("so_far", Json())};
  } catch (const Json::exception&) {
    // Not a whole line: the one before stays.
  }
}

}  // namespace

std::shared_ptr<ChildProcess> ChildProcess::start(boost::asio::io_context& context,
                                                  const std::vector<std::string>& words, const ChildLimits& limits,
                                                  Done done, OnOutput on_output) {
  std::shared_ptr<ChildProcess> child(new ChildProcess(context, limits, std::move(done), std::move(on_output)));
  child->spawn(words);
  return child;
}

ChildProcess::ChildProcess(boost::asio::io_context& context, const ChildLimits& limits, Done done, OnOutput on_output)
    : limits_(limits), done_(std::move(done)), on_output_(std::move(on_output)), output_(context), error_(context),
      timer_(context) {}

ChildProcess::~ChildProcess() {
  if (input_ >= 0) ::close(input_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::spawn(const std::vector<std::string>& words) {
  std::vector<std::string> texts = {"heapprof"};
  texts.insert(texts.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  char progress[] = "HEAPPROF_PROGRESS=lines";
  std::vector<char*> environment;
  for (char** variable = ::environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(progress);
  char answers[] = "HEAPPROF_ANSWERS=standing";
  if (limits_.stands) environment.push_back(answers);
  environment.push_back(nullptr);

  const auto fail = [&](const char* what) {
    result_.error = std::string(what) + ": " + std::strerror(errno);
    open_ = 0;
    boost::asio::post(output_.get_executor(), [self = shared_from_this()] { self->done_(std::move(self->result_)); });
  };
  int input[2] = {-1, -1}, output[2], error[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return fail("pipe");
  if (::pipe2(error, O_CLOEXEC) != 0) {
    fail("pipe");
    ::close(output[0]);
    ::close(output[1]);
    return;
  }
  // A socket, because writing to it raises no signal when the child has ended. Without it the child ends after its
  // first answer.
  if (limits_.stands && ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input) != 0) input[0] = input[1] = -1;
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(arguments.data(), environment.data(), input[0], output[1], error[1], parent);
  if (pid_ < 0) fail("fork");
  if (input[0] >= 0) ::close(input[0]);
  input_ = input[1];
  ::close(output[1]);
  ::close(error[1]);
  if (pid_ < 0) {
    ::close(output[0]);
    ::close(error[0]);
    return;
  }
  output_.assign(output[0]);
  error_.assign(error[0]);
  read_output();
  read_error();
  if (limits_.time.count() == 0) return;
  timer_.expires_after(limits_.time);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    if (const auto self = weak.lock(); self && !failed) self->stop(ChildResult::End::kTooLong);
  });
}

void ChildProcess::read_output() {
  output_.async_read_some(boost::asio::buffer(output_buffer_),
                          [self = shared_from_this()](boost::system::error_code failed, std::size_t bytes) {
                            if (bytes != 0) {
                              if (self->on_output_) {
                                self->on_output_({self->output_buffer_, bytes});
                              } else {
                                self->take_output({self->output_buffer_, bytes});
                              }
                            }
                            if (failed) return self->closed();
                            self->read_output();
                          });
}

void ChildProcess::take_output(std::string_view piece) {
  if (limits_.is_json) compactor_.append(piece, result_.output);
  else result_.output += piece;
  if (result_.output.size() > limits_.output_bytes) stop(ChildResult::End::kTooMuchOutput);
}

void ChildProcess::read_error() {
  error_.async_read_some(boost::asio::buffer(error_buffer_),
                         [self = shared_from_this()](boost::system::error_code failed, std::size_t bytes) {
                           self->take_error({self->error_buffer_, bytes});
                           if (failed) return self->closed();
                           self->read_error();
                         });
}

/// Divides what the child prints on standard error into messages and progress.
void ChildProcess::take_error(std::string_view piece) {
  constexpr char kProgress = '\x1e';
  unfinished_ += piece;
  for (std::size_t end = 0; (end = unfinished_.find('\n')) != std::string::npos; unfinished_.erase(0, end + 1)) {
    const std::string_view line(unfinished_.data(), end + 1);
    if (line.front() == kProgress) read_progress(line.substr(1, end - 1), progress_);
    else result_.error.append(line.substr(0, kMaxErrorBytes - result_.error.size()));
  }
  if (unfinished_.size() <= kMaxErrorBytes) return;
  result_.error.append(unfinished_, 0, kMaxErrorBytes - result_.error.size());
  unfinished_.clear();
}

void ChildProcess::lower_priority() noexcept {
  constexpr int kNice = 10;
  // The priority is that of a thread, and a process has it only as the default of new threads.
  std::error_code error;
  for (std::filesystem::directory_iterator task("/proc/" + std::to_string(pid_) + "/task", error), end;
       !error && task != end; task.increment(error)) {
    id_t thread = 0;
    const std::string name = task->path().filename();
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc())
      ::setpriority(PRIO_PROCESS, thread, kNice);
  }
}

void ChildProcess::request(const std::vector<std::string>& words) noexcept {
  std::string text;
  for (const std::string& word : words) text.append(word.c_str(), word.size() + 1);
  text = std::to_string(text.size()) + "\n" + text;
  // If the child has ended, its output ends as well. It reads the request before the next one comes, so there is room
  // for it, unless it is larger than any that a browser sends; then the child is of no use.
  if (input_ >= 0 &&
      ::send(input_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(text.size()))
    kill();
}

void ChildProcess::kill() { stop(ChildResult::End::kKilled); }

void ChildProcess::stop(ChildResult::End reason) {
  if (pid_ <= 0 || stopped_) return;
  stopped_ = true;
  result_.end = reason;
  ::kill(pid_, SIGKILL);  // the pipes end, and closed() follows
}

void ChildProcess::closed() {
  if (--open_ != 0) return;
  timer_.cancel();
  result_.error.append(unfinished_, 0, kMaxErrorBytes - result_.error.size());
  int status = 0;
  // A process closes its pipes after it has returned its memory, so it is about to end.
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  if (!stopped_) {
    result_.end = WIFEXITED(status) ? ChildResult::End::kExited : ChildResult::End::kSignal;
    result_.code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
  }
  done_(std::move(result_));
}

}  // namespace heapprof::serve
