// Where an output is written: a file, compressed according to its name, or standard output.
//
//   name          content
//   ends in .gz   one gzip member
//   ends in .zst  one zstd frame
//   -             standard output, not compressed
//   other         not compressed
//
// A sink in memory appends to a string instead, for what is sent to another program.
//
// Writes never fail visibly: after the first error they do nothing, and close() returns false. A file that has the
// name already is replaced by close(), if it is complete (output_file.h).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "analyzer/base/output_target.h"

namespace heapprof::exporter {

class OutputFile;

class Sink {
 public:
  enum class Compression {
    kByName,
    kGzip,  ///< whatever the name, on standard output too; for formats that are always compressed
    kNone,  ///< whatever the name
  };

  static constexpr mode_t kEverybody = 0666;  ///< without the bits of the umask, like the files of most programs
  static constexpr mode_t kUserOnly = kModeOfTraces;

  /// Opens `path` for writing; a new file gets `mode`. After a failure ok() is false.
  explicit Sink(std::string path, Compression compression = Compression::kByName, mode_t mode = kEverybody);
  /// Appends to `*memory`, which must outlive this. `compression`: kGzip or kNone.
  Sink(std::string* memory, Compression compression);
  /// Discards what was written if writing failed or close() was not called.
  ~Sink();
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void write(std::string_view bytes) {
    if (used_ + bytes.size() > kBufferBytes) [[unlikely]]
      flush();
    if (bytes.size() > kBufferBytes) [[unlikely]] {
      write_through(bytes.data(), bytes.size());
      return;
    }
    bytes.copy(buffer_.get() + used_, bytes.size());
    used_ += bytes.size();
  }

  /// Returns space for `size` bytes, at most kMaxDirect, to be written in place; then call commit() with their
  /// number. The fastest way to write many short records.
  static constexpr std::size_t kMaxDirect = 256;
  char* reserve(std::size_t size) {
    if (used_ + size > kBufferBytes) [[unlikely]]
      flush();
    return buffer_.get() + used_;
  }
  void commit(std::size_t size) { used_ += size; }

  /// Flushes, ends the compressed stream and closes the file. True: the file is complete. Call once.
  bool close();

  /// Reports an error of the caller: the file is not complete.
  void fail(const std::string& reason);

  bool ok() const noexcept { return error_.empty(); }
  /// The file's name and the error; empty: none.
  const std::string& error() const noexcept { return error_; }

 private:
  static constexpr std::size_t kBufferBytes = 256 * 1024;
  struct Compressor;
  struct Gzip;
  struct Zstd;

  void flush();
  void write_through(const char* bytes, std::size_t size);  // to the compressor or to the file
  void write_file(const char* bytes, std::size_t size);
  void write_standard_output(const char* bytes, std::size_t size);

  std::string path_;
  std::string error_;
  std::string* memory_ = nullptr;
  std::unique_ptr<OutputFile> file_;  // null: memory, or standard output
  bool closed_ = false;
  std::unique_ptr<char[]> buffer_;
  std::size_t used_ = 0;
  std::unique_ptr<Compressor> compressor_;
};

}  // namespace heapprof::exporter
