#include "analyzer/trace/mailbox.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <thread>

#include "analyzer/trace/files/read_header.h"
#include "analyzer/trace/trace_file.h"
#include "common/trace_header.h"

namespace heapprof::trace {

Mailbox::Mailbox(const std::string& path) : input_(path) {
  if (read_header(input_, header_) != sizeof header_ || !is_recorder_header(header_)) {
    const TraceFile file(path);  // throws with the reason if the file is not a trace
    if (file.compacted() != nullptr)
      throw TraceError(path + ": is a compacted trace, which has no running recorder to control; name the original");
    throw TraceError(path + ": the header is damaged, so no request can be sent to its program");
  }
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (descriptor_ < 0) open_error_ = errno;
  const int readable = descriptor_ >= 0 ? descriptor_ : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const page = readable < 0
                         ? MAP_FAILED
                         : ::mmap(nullptr, sizeof(FileHeader), descriptor_ >= 0 ? PROT_READ | PROT_WRITE : PROT_READ,
                                  MAP_SHARED, readable, 0);
  const int error = errno;
  if (descriptor_ < 0 && readable >= 0) ::close(readable);
  if (page == MAP_FAILED) throw TraceError(path + ": cannot be mapped: " + std::strerror(error));
  mapped_ = static_cast<FileHeader*>(page);
}

Mailbox::~Mailbox() {
  if (mapped_ != nullptr) ::munmap(mapped_, sizeof(FileHeader));
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool Mailbox::paused() const noexcept { return __atomic_load_n(&mapped_->mailbox.paused, __ATOMIC_ACQUIRE) != 0; }

bool Mailbox::request_pending() const noexcept {
  return __atomic_load_n(&mapped_->mailbox.request, __ATOMIC_ACQUIRE) !=
         __atomic_load_n(&mapped_->mailbox.acknowledged, __ATOMIC_ACQUIRE);
}

EndKind Mailbox::end_kind() const noexcept {
  EndKind kind;
  __atomic_load(&mapped_->end_kind, &kind, __ATOMIC_ACQUIRE);
  return kind;
}

Mailbox::Answer Mailbox::send(MailboxCommand command, std::string_view text, std::chrono::milliseconds timeout) {
  if (descriptor_ < 0)
    throw TraceError(input_.path() +
                     ": cannot be opened for writing, which a control request needs: " + std::strerror(open_error_));
  FileHeader::Mailbox& box = mapped_->mailbox;
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  const auto acknowledged_by = [&](auto until) {
    for (;;) {
      // Before the state: what was acknowledged in time is seen, however late this thread continues.
      const bool is_last = std::chrono::steady_clock::now() >= until;
      if (!request_pending()) return true;
      if (is_last) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  // One sender at a time. Only senders take this lock, the recorder does not.
  while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct Unlock {
    int descriptor;
    ~Unlock() { ::flock(descriptor, LOCK_UN); }
  } const unlock{descriptor_};
  if (!acknowledged_by(deadline)) return Answer::kOccupied;
  const std::size_t bytes = text.size() < kMaxText ? text.size() : kMaxText;
  std::memcpy(box.text, text.data(), bytes);
  __atomic_store_n(&box.text_bytes, static_cast<std::uint32_t>(bytes), __ATOMIC_RELAXED);
  __atomic_store_n(&box.command, static_cast<std::uint32_t>(command), __ATOMIC_RELAXED);
  __atomic_store_n(&box.request, __atomic_load_n(&box.request, __ATOMIC_RELAXED) + 1, __ATOMIC_RELEASE);
  return acknowledged_by(deadline) ? Answer::kDone : Answer::kNotYet;
}

std::string trace_of_process(std::uint32_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  std::set<std::string> seen;
  for (std::string line; std::getline(maps, line);) {
    // begin-end rw-s offset device inode path: a trace is mapped shared.
    const std::size_t path_at = line.find('/');
    if (path_at == std::string::npos || line.size() < 30 || line.find(" rw-s ") == std::string::npos) continue;
    // The process may have another root directory.
    for (const std::string& path :
         {line.substr(path_at), "/proc/" + std::to_string(pid) + "/root" + line.substr(path_at)}) {
      if (!seen.insert(path).second) continue;
      FileHeader header;
      std::ifstream file(path, std::ios::binary);
      if (file.read(reinterpret_cast<char*>(&header), sizeof header) && is_recorder_header(header)) {
        try {
          if (find_recorder(header, InputFile(path)) == RecorderState::kRecording) return path;
        } catch (const TraceError&) {
          continue;  // removed meanwhile
        }
      }
    }
  }
  return {};
}

}  // namespace heapprof::trace
