// A file that gets its name only when it is complete: readers see the old file or the new one, never a part.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace heapprof::trace {

/// Written under a temporary name in the same folder, with mode 0600, and renamed by finish().
class AtomicFile {
 public:
  /// Creates the temporary file. Throws TraceError.
  explicit AtomicFile(std::string path);
  /// Removes the temporary file unless finish() was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Throws TraceError.
  void append(std::span<const std::uint8_t> bytes);
  /// Renames the file to its path and replaces what has that name. Call once, last. Throws TraceError.
  void finish();
  std::uint64_t bytes() const noexcept { return bytes_; }  ///< appended so far
  const std::string& temporary_path() const noexcept { return temporary_; }

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace heapprof::trace
