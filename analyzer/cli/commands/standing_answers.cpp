#include "analyzer/cli/commands/standing_answers.h"

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

/// Whether another answer is wanted.
bool wait_for_request() {
  char byte = 0;
  ssize_t got = 0;
  while ((got = ::read(STDIN_FILENO, &byte, 1)) < 0 && errno == EINTR) {
  }
  return got == 1;
}

/// False in the copy, which is to print the answer. Returns in the process itself after it was printed.
bool answer_in_copy() {
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
    return false;
  }
  int status = 0;
  while (::waitpid(copy, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const std::string header =
      std::to_string(code) + " " + std::to_string(output.bytes()) + " " + std::to_string(error.bytes()) + "\n";
  if (!write_all(STDOUT_FILENO, header) || !output.copy_to(STDOUT_FILENO) || !error.copy_to(STDOUT_FILENO) ||
      !wait_for_request())
    ::_exit(0);
  return true;
}

}  // namespace

replay::AtPresent standing_answers() {
  static bool is_given = false;
  const char* const kind = std::getenv("HEAPPROF_ANSWERS");
  if (kind == nullptr || std::string_view(kind) != "standing" || std::exchange(is_given, true)) return {};
  return answer_in_copy;
}

}  // namespace heapprof::cli
