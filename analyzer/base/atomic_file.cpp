#include "analyzer/base/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace heapprof {
namespace {

constexpr std::string_view kTemporaryMark = ".new-";
constexpr std::string_view kRandomPart = "XXXXXX";  // mkostemp(3) replaces it
static_assert(kTemporaryMark.size() + kRandomPart.size() == AtomicFile::kTemporaryBytes);

}  // namespace

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), temporary_(path_ + std::string(kTemporaryMark) + std::string(kRandomPart)) {
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail();
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail() const { throw FileError(path_ + ": cannot be written: " + std::strerror(errno)); }

void AtomicFile::append(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::append(std::string_view bytes) {
  append(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
}

void AtomicFile::finish() {
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  const int error = errno;
  ::unlink(temporary_.c_str());
  errno = error;
  fail();
}

bool AtomicFile::is_temporary(std::string_view name) noexcept {
  return name.size() >= kTemporaryBytes && name.substr(name.size() - kTemporaryBytes).starts_with(kTemporaryMark);
}

}  // namespace heapprof
