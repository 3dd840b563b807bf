#include "analyzer/trace/files/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "analyzer/trace/files/input_file.h"

namespace heapprof::trace {

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + ".new" + std::to_string(::getpid())) {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor_ < 0) fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* what) const { throw TraceError(path_ + ": " + what + ": " + std::strerror(errno)); }

void AtomicFile::append(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::finish() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary_.c_str());
  errno = error;
  fail("cannot be written");
}

}  // namespace heapprof::trace
