// Copies memory of this process that another thread may unmap at the same time. The kernel copies, and reports an
// error where nothing is mapped. GuardedReader uses process_vm_readv or, where a policy refuses that call (seccomp
// filters of containers and services do), /proc/self/mem.
#pragma once

#include <cstddef>

#include "preload/sys/kernel.h"

namespace heapprof::sys {

class GuardedReader {
 public:
  enum class Method {
    kSystemCall,  ///< process_vm_readv
    kFile,        ///< /proc/self/mem
  };

  /// `first`: the method to try first. Processes that are not recorded start with the file: a seccomp filter that
  /// they inherited may kill them at process_vm_readv, but rarely at the calls that read a file.
  constexpr explicit GuardedReader(Method first = Method::kSystemCall) noexcept
      : file_first_(first == Method::kFile) {}

  /// Copies `bytes` bytes. Returns false when a part of them cannot be read.
  bool read(const void* from, void* to, std::size_t bytes) noexcept;
  template <typename T>
  bool read(const T* from, T& to) noexcept {
    return read(from, &to, sizeof to);
  }

  /// Copies a string with its NUL; reads page by page, up to the page of the NUL. Returns false when the string does
  /// not end within `size` bytes or cannot be read.
  bool read_string(const char* from, char* to, std::size_t size) noexcept;

  /// True when both methods are refused. A failed read then does not mean that the memory is unmapped.
  bool refused() const noexcept { return refused_; }

  /// Closes the descriptor; call it after the last read. It is not a destructor because a longjmp would skip that.
  /// When the host has entered seccomp since, the descriptor stays open: in strict mode the call would kill the
  /// program.
  void close() noexcept;

  /// Number of calls of read().
  std::size_t reads() const noexcept { return reads_; }

 private:
  bool open_memory() noexcept;

  int process_ = 0;
  int memory_fd_ = -1;  ///< a high number, checked before each use: the host may close it and reuse the number
  FileIdentity memory_{};
  bool file_first_;
  bool refused_ = false;
  std::size_t reads_ = 0;
};

}  // namespace heapprof::sys
