// A file that is read at any offset.
//
// Reads use pread, not a mapping: somebody may truncate a trace while it is read, and a mapping would raise SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace heapprof::trace {

/// A trace that cannot be read at all. what() is one sentence for people, with the file's name.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thread safety: const members may be called by several threads at once.
class InputFile {
 public:
  /// Opens a regular file. Throws TraceError.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  InputFile& operator=(InputFile&&) = delete;

  /// Reads up to `size` bytes at `offset` and returns how many; fewer only at the end of the file or after an I/O
  /// error.
  std::size_t read(std::uint64_t offset, void* out, std::size_t size) const noexcept;
  /// Whether all `size` bytes were read.
  bool read_all(std::uint64_t offset, void* out, std::size_t size) const noexcept {
    return read(offset, out, size) == size;
  }

  std::uint64_t size() const noexcept;  ///< bytes, now: a trace that is being written grows
  std::uint64_t inode() const noexcept;
  /// When the file was changed last, nanoseconds since 1970; 0: unknown.
  std::uint64_t modified_ns() const noexcept;
  /// Whether `path` names this file, by device and inode.
  bool is_at(const std::string& path) const noexcept;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace heapprof::trace
