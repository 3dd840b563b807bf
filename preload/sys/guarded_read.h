// Copies memory of this process that another thread may unmap at the same time. The kernel copies, and reports an
// error where nothing is mapped. GuardedReader uses process_vm_readv or, where a policy refuses that call (seccomp
// filters of containers and services do), /proc/self/mem.
//
// While the process has one thread, memory stays mapped during a search for symbols. Then a reader can ask the kernel
// once for each mapping that it meets, and copy from there itself: see read_directly().
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

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

  /// From here on to close(), copies memory without a system call where the kernel has confirmed that it is mapped,
  /// readable and private (since Linux 6.11); elsewhere as before. A shared mapping of a file is not read directly:
  /// another process may truncate the file, and then the read raises SIGBUS. Preconditions: until close(), this
  /// process has no other thread, and the caller neither unmaps nor protects memory that it reads; it reads private
  /// mappings of files only of loaded objects, which cannot run any more if another process truncates their files.
  void read_directly() noexcept;

  /// Copies `bytes` bytes. Returns false when a part of them cannot be read.
  bool read(const void* from, void* to, std::size_t bytes) noexcept;
  template <typename T>
  bool read(const T* from, T& to) noexcept {
    return read(from, &to, sizeof to);
  }

  /// The bytes at `from`, where they may be read directly: valid until close(). Null: they have to be copied.
  const void* view(const void* from, std::size_t bytes) noexcept {
    return may_read_directly(from, bytes) ? from : nullptr;
  }

  /// As sys::find_mapping(). After read_directly(), /proc/self/maps is open already.
  bool find_mapping(std::uint64_t address, Mapping& mapping, char* path, std::size_t path_size) noexcept {
    return (maps_fd_ >= 0 && query_mapping(maps_fd_, address, mapping, path, path_size)) ||
           sys::find_mapping(address, mapping, path, path_size);
  }

  /// Copies a string with its NUL; reads page by page, up to the page of the NUL. Returns false when the string does
  /// not end within `size` bytes or cannot be read.
  bool read_string(const char* from, char* to, std::size_t size) noexcept;

  /// True when both methods are refused. A failed read then does not mean that the memory is unmapped.
  bool refused() const noexcept { return refused_; }

  /// Closes the descriptors; call it after the last read. It is not a destructor because a longjmp would skip that.
  /// When the host has entered seccomp since, the descriptor stays open: in strict mode the call would kill the
  /// program.
  void close() noexcept;

  /// Number of calls of read().
  std::size_t reads() const noexcept { return reads_; }

 private:
  /// A mapping that may be read directly.
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;  ///< 0: unused
    bool contains(std::uint64_t address, std::uint64_t count) const noexcept {
      return address - begin < bytes && count <= bytes - (address - begin);
    }
  };
  static constexpr unsigned kRanges = 16;

  bool open_memory() noexcept;
  bool may_read_directly(const void* from, std::size_t bytes) noexcept {
    return maps_fd_ >= 0 && is_confirmed(reinterpret_cast<std::uint64_t>(from), bytes);
  }
  bool is_confirmed(std::uint64_t address, std::size_t bytes) noexcept;
  void stop_reading_directly() noexcept;

  int maps_fd_ = -1;  ///< of /proc/self/maps; only after read_directly()
  unsigned next_range_ = 0;
  Range ranges_[kRanges];
  int process_ = 0;
  int memory_fd_ = -1;  ///< a high number, checked before each use: the host may close it and reuse the number
  FileIdentity memory_{};
  bool file_first_;
  bool refused_ = false;
  std::size_t reads_ = 0;
};

}  // namespace heapprof::sys
