// A temporary file, removed at the end of the test.
#pragma once

#include <string>
#include <unistd.h>

namespace heapprof::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& suffix = ".heapprof") {
    std::string pattern = "/tmp/heapprof-test-XXXXXX" + suffix;
    const int descriptor = ::mkstemps(pattern.data(), static_cast<int>(suffix.size()));
    if (descriptor >= 0) ::close(descriptor);
    path_ = pattern;
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace heapprof::test
