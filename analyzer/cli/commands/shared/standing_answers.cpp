#include "analyzer/cli/commands/shared/standing_answers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace heapprof::cli {
namespace {

/// A file in memory, for what a copy of this process prints.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : descriptor_(::memfd_create(name, MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const noexcept { return descriptor_; }
  std::size_t bytes() const {
    struct stat status {};
    return ::fstat(descriptor_, &status) == 0 ? static_cast<std::size_t>(status.st_size) : 0;
  }
  bool copy_to(int output) const {
    off_t at = 0;
    for (std::size_t left = bytes(); left != 0;) {
      const ssize_t copied = ::sendfile(output, descriptor_, &at, left);
      if (copied < 0 && errno == EINTR) continue;
      if (copied <= 0) return false;
      left -= static_cast<std::size_t>(copied);
    }
    return true;
  }

 private:
  const int descriptor_;
};

bool write_all(int output, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(output, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool read_all(char* to, std::size_t bytes) {
  while (bytes != 0) {
    const ssize_t got = ::read(STDIN_FILENO, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

/// The words of the next request. False: there is none.
bool wait_for_request(std::vector<std::string>& words) {
  constexpr std::size_t kMaxBytes = 1 << 20;
  std::size_t bytes = 0;
  for (char digit = 0; read_all(&digit, 1) && digit != '\n';) {
    if (digit < '0' || digit > '9' || bytes > kMaxBytes) return false;
    bytes = bytes * 10 + static_cast<std::size_t>(digit - '0');
  }
  std::string text(bytes, '\0');
  if (bytes == 0 || bytes > kMaxBytes || !read_all(text.data(), bytes) || text.back() != '\0') return false;
  words.clear();
  for (std::size_t begin = 0; begin < bytes; begin += words.back().size() + 1) words.emplace_back(&text[begin]);
  return true;
}

/// What the process keeps. A copy never destroys it: that would cost it a copy of the memory.
struct State {
  std::vector<std::unique_ptr<FollowedSums>> sums;
  std::unique_ptr<replay::Followed> followed;
  bool is_copy = false;
};
State& state() {
  static State* const kept = new State;
  return *kept;
}

int (*run_command)(const std::vector<std::string>& words) = nullptr;

/// Lets a copy of this process answer a request. Does not return in the copy.
void answer_in_copy(const std::vector<std::string>& words) {
  const MemoryFile output("answer"), error("messages");
  if (output.descriptor() < 0 || error.descriptor() < 0) ::_exit(1);
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t copy = ::fork();
  if (copy < 0) ::_exit(1);
  if (copy == 0) {
    // It ends with this process, which may have ended before this call.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent || ::dup2(output.descriptor(), STDOUT_FILENO) < 0 ||
        ::dup2(error.descriptor(), STDERR_FILENO) < 0)
      ::_exit(1);
    state().is_copy = true;
    std::exit(run_command(words));
  }
  int status = 0;
  while (::waitpid(copy, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const std::string header =
      std::to_string(code) + " " + std::to_string(output.bytes()) + " " + std::to_string(error.bytes()) + "\n";
  if (!write_all(STDOUT_FILENO, header) || !output.copy_to(STDOUT_FILENO) || !error.copy_to(STDOUT_FILENO))
    ::_exit(0);
}

}  // namespace

void set_command_runner(int (*run)(const std::vector<std::string>& words)) { run_command = run; }

std::span<const std::unique_ptr<FollowedSums>> all_followed_sums() { return state().sums; }

replay::Followed* followed_program(const std::string& trace, const replay::Selection& selection,
                                   const replay::Progress& progress) {
  static bool is_given = false;
  const char* const kind = std::getenv("HEAPPROF_ANSWERS");
  if (kind == nullptr || std::string_view(kind) != "standing" || run_command == nullptr) return nullptr;
  State& kept = state();
  if (kept.is_copy) return std::exchange(is_given, true) ? nullptr : kept.followed.get();
  kept.sums.push_back(new_churn_sums());
  kept.sums.push_back(new_histogram_sums());
  kept.sums.push_back(new_realloc_sums());
  kept.sums.push_back(new_thread_sums());
  kept.followed =
      std::make_unique<replay::Followed>(trace, selection, [&](std::span<const replay::ProfileEvent> events) {
        for (const std::unique_ptr<FollowedSums>& one : kept.sums) one->add(events);
      });
  kept.followed->advance(progress);
  for (std::vector<std::string> words; wait_for_request(words);) {
    kept.followed->advance();
    answer_in_copy(words);
  }
  ::_exit(0);
}

}  // namespace heapprof::cli
