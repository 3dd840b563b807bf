#include "analyzer/trace/files/input_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace heapprof::trace {

InputFile::InputFile(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (descriptor_ < 0) throw TraceError(path + ": " + std::strerror(errno));
  struct stat status {};
  const char* problem = nullptr;
  if (::fstat(descriptor_, &status) != 0) problem = std::strerror(errno);
  else if (S_ISDIR(status.st_mode)) problem = "is a directory, not a trace";
  else if (!S_ISREG(status.st_mode)) problem = "is not a regular file; copy the trace to a file first";
  if (problem != nullptr) {
    ::close(descriptor_);
    throw TraceError(path + ": " + problem);
  }
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

std::size_t InputFile::read(std::uint64_t offset, void* out, std::size_t size) const noexcept {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count =
        ::pread(descriptor_, static_cast<char*>(out) + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
  }
  return done;
}

std::uint64_t InputFile::size() const noexcept {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

std::uint64_t InputFile::inode() const noexcept {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? status.st_ino : 0;
}

std::uint64_t InputFile::modified_ns() const noexcept {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || status.st_mtim.tv_sec < 0) return 0;
  return static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(status.st_mtim.tv_nsec);
}

bool InputFile::is_at(const std::string& path) const noexcept {
  struct stat own {};
  struct stat other {};
  return ::fstat(descriptor_, &own) == 0 && ::stat(path.c_str(), &other) == 0 && own.st_dev == other.st_dev &&
         own.st_ino == other.st_ino;
}

}  // namespace heapprof::trace
