// A file that gets its name only when it is complete: readers see the old file or the new one, never a part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace heapprof {

/// A file that cannot be written. what() is a sentence that names the file.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Written under a temporary name in the same directory, with mode 0600, and renamed by finish(). Several processes
/// and threads may write the same path at once: the last one that finishes replaces the others' file.
class AtomicFile {
 public:
  static constexpr std::size_t kTemporaryBytes = 11;  ///< by which a temporary name is longer

  /// Creates the temporary file. Throws FileError.
  explicit AtomicFile(std::string path);
  /// For an output that the user names and that has to be a file, because it is read or written by its name while it
  /// is made. If `path` is a symbolic link, its target is replaced. finish() keeps mode and owner of the old file; a
  /// new one gets `mode` without the bits of the umask. Throws FileError, also if `path` is a device, a pipe or a
  /// directory.
  AtomicFile(const std::string& path, mode_t mode);
  /// Removes the temporary file unless finish() was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws FileError.
  void append(std::span<const std::uint8_t> bytes);
  /// Throws FileError.
  void append(std::string_view bytes);
  /// Renames the file to its path and replaces what has that name. Call once, last. Throws FileError.
  void finish();
  std::uint64_t bytes() const noexcept { return bytes_; }  ///< appended so far
  /// Valid until finish(); for changing the owner or the mode, or reading what was written.
  const std::string& temporary_path() const noexcept { return temporary_; }

  /// Whether a file with this name is the temporary file of an AtomicFile. A process that is killed leaves it behind.
  static bool is_temporary(std::string_view name) noexcept;

 private:
  [[noreturn]] void fail() const;  ///< with the reason in errno
  void give_owner_and_mode() const;

  std::string path_;
  std::string temporary_;
  std::optional<mode_t> mode_;  ///< of an output that a user names, if no file has its name
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace heapprof
