// Copies memory of this process that another thread may unmap meanwhile: the kernel does the copying, and says when
// there is nothing to copy. By process_vm_readv, or, where a policy refuses that (seccomp filters of containers and
// services do), through /proc/self/mem.
#pragma once

#include <cstddef>

#include "preload/sys/kernel.h"

namespace heapprof::sys {

class GuardedReader {
 public:
  enum class Way { kSystemCall, kFile };

  /// `first`: what is tried before the other one. The file is for processes that are not recorded: a filter that they
  /// inherited may end them at process_vm_readv, but hardly at what it takes to read a file.
  constexpr explicit GuardedReader(Way first = Way::kSystemCall) noexcept : file_first_(first == Way::kFile) {}

  /// False when not all of it can be read.
  bool read(const void* from, void* to, std::size_t bytes) noexcept;
  template <typename T>
  bool read(const T* from, T& to) noexcept {
    return read(from, &to, sizeof to);
  }

  /// Copies a text with its NUL, page by page as far as needed. False when it is longer than `size`, too.
  bool read_text(const char* from, char* to, std::size_t size) noexcept;

  /// Neither way is open: nothing can be said about any memory.
  bool refused() const noexcept { return refused_; }

  /// Call it when done. Not a destructor: a longjmp would pass without it anyway. When the host has entered seccomp
  /// meanwhile, the descriptor stays open: in strict mode the call that closes it would end the program.
  void close() noexcept;

  /// Calls of read so far.
  std::size_t reads() const noexcept { return reads_; }

 private:
  bool open_memory() noexcept;

  int process_ = 0;
  int memory_fd_ = -1;  ///< high, and checked before each use: the host may take its number
  FileIdentity memory_{};
  bool file_first_;
  bool refused_ = false;
  std::size_t reads_ = 0;
};

}  // namespace heapprof::sys
