// A file to read at any offset. Reads go through pread, never through a mapping: a trace may be cut by
// somebody while it is read, and a mapping would answer that with SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace heapprof::trace {

/// A trace that cannot be read at all; what() is one sentence for people, with the file's name.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InputFile {
 public:
  /// Throws TraceError.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  InputFile& operator=(InputFile&&) = delete;

  /// Bytes read at `offset`, fewer than `size` only at the end of the file or at an I/O error.
  std::size_t read(std::uint64_t offset, void* out, std::size_t size) const noexcept;
  bool read_all(std::uint64_t offset, void* out, std::size_t size) const noexcept {
    return read(offset, out, size) == size;
  }

  std::uint64_t size() const noexcept;  ///< now; a trace being written grows
  std::uint64_t inode() const noexcept;
  /// Whether `path` leads to this very file.
  bool is_at(const std::string& path) const noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace heapprof::trace
