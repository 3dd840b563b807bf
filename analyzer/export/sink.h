// Where an export goes: a file, compressed as its name says, or standard output.
//
//   name          content
//   ends in .gz   one gzip member
//   ends in .zst  one zstd frame
//   -             standard output, plain
//   other         plain
//
// Errors are remembered, not thrown: after the first one, writes do nothing, and close() tells. So a caller
// writes as if nothing could fail and looks once.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace heapprof::exporter {

class Sink {
 public:
  enum class Compression { kByName, kGzip };

  /// Opens `path` for writing and truncates it. On failure the Sink is already failed: see error().
  /// kGzip: gzip whatever the name, on standard output too, for formats that are compressed by definition.
  explicit Sink(std::string path, Compression compression = Compression::kByName);
  /// Closes without looking at errors; a file whose writing failed, or that was never closed, is removed.
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void write(std::string_view bytes) {
    if (used_ + bytes.size() > kBufferBytes) [[unlikely]] flush();
    if (bytes.size() > kBufferBytes) [[unlikely]] {
      pass_on(bytes.data(), bytes.size());
      return;
    }
    bytes.copy(buffer_.get() + used_, bytes.size());
    used_ += bytes.size();
  }

  /// Room for `size` (at most kMaxDirect) bytes to be filled in place; then commit() how many were.
  /// The cheapest way to write many short records.
  static constexpr std::size_t kMaxDirect = 256;
  char* reserve(std::size_t size) {
    if (used_ + size > kBufferBytes) [[unlikely]] flush();
    return buffer_.get() + used_;
  }
  void commit(std::size_t size) { used_ += size; }

  /// Writes out what is left, ends the compressed stream and closes the file. True when everything has
  /// been written; then the file is complete. Call once.
  bool close();

  /// Remembers a failure that happened elsewhere: the file must not look complete.
  void fail(const std::string& reason);

  bool ok() const noexcept { return error_.empty(); }
  /// One clause with the file's name and what went wrong; empty when all is well.
  const std::string& error() const noexcept { return error_; }

 private:
  static constexpr std::size_t kBufferBytes = 256 * 1024;
  struct Compressor;
  struct Gzip;
  struct Zstd;

  void flush();
  void pass_on(const char* bytes, std::size_t size);  // to the compressor, or to the file
  void write_file(const char* bytes, std::size_t size);
  void fail_errno(const char* what);

  std::string path_;
  std::string error_;
  int fd_ = -1;
  bool is_stdout_ = false;
  bool closed_ = false;
  std::unique_ptr<char[]> buffer_;
  std::size_t used_ = 0;
  std::unique_ptr<Compressor> compressor_;
};

}  // namespace heapprof::exporter
