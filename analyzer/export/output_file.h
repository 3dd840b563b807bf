// The file with the name that a user gave to an output.
//
// It gets its name when it is complete (base/atomic_file.h), so that a command that fails leaves the file that had
// the name before. The new file has mode and owner of the old one. Of a symbolic link, the target is replaced.
//
// Written in place are devices, pipes, and files that cannot be replaced by another one:
//
//   - open in this process, such as /dev/stdout or /dev/fd/3: other programs write to the same file
//   - with several names, mounted, or of an owner who cannot be given to another file
//   - in a directory in which this process cannot create files, or with a name to which nothing can be added
//
// Such a file is empty after a failure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "analyzer/base/atomic_file.h"

namespace heapprof::exporter {

class OutputFile {
 public:
  /// A file that does not exist gets `mode` without the bits of the umask. Throws FileError.
  OutputFile(std::string path, mode_t mode);
  /// Without finish(): what was written is discarded.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws FileError.
  void append(std::string_view bytes);
  /// The file is complete. Call once, last. Throws FileError.
  void finish();

 private:
  [[noreturn]] void fail() const;  ///< with the reason in errno

  std::string path_;
  std::optional<AtomicFile> file_;
  int descriptor_ = -1;  ///< of a file that is written in place
};

}  // namespace heapprof::exporter
