// A file that appears under its name only when it is complete.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace heapprof::trace {

/// A new file, written under a temporary name until it is complete.
class NewFile {
 public:
  /// Throws TraceError.
  explicit NewFile(std::string path);
  /// Removes it, unless finish() was called.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Throws TraceError.
  void append(std::span<const std::uint8_t> bytes);
  /// Gives it its name, in place of what has it now. Throws TraceError.
  void finish();
  std::uint64_t bytes() const noexcept { return bytes_; }
  const std::string& temporary_path() const noexcept { return temporary_; }

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace heapprof::trace
