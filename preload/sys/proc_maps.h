// Reads /proc/self/maps (proc(5)) by raw system calls, line by line or one mapping by address or name. Since Linux
// 6.11, the kernel finds one mapping by address (PROCMAP_QUERY); before, the lines are read up to it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::sys {

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t device = 0;  ///< major << 32 | minor
  std::uint64_t inode = 0;   ///< 0: no file
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  bool path_truncated = false;  ///< the path did not fit the caller's buffer
};

/// Opens /proc/self/maps. Returns a descriptor, which the caller closes, or a negated errno.
int open_maps() noexcept;

/// Iterates over the lines of /proc/self/maps. Call close() after the last line: it is not a destructor because a
/// longjmp would skip that.
///
/// The position of the descriptor is neither used nor changed, because a forked child shares it with its parent, and
/// because the host may have put another file at the descriptor's number. Nobody else may read from the same open
/// file while lines come or go: the kernel continues at an address only where the last read ended.
class MapsReader {
 public:
  /// `buffer` receives pieces of the file of at most `bytes` bytes; each piece is one system call.
  MapsReader(char* buffer, std::size_t bytes) noexcept;
  /// Reads from a descriptor of /proc/self/maps, which the caller closes.
  constexpr MapsReader(char* buffer, std::size_t bytes, int descriptor) noexcept
      : buffer_(buffer), bytes_(bytes), fd_(descriptor) {}

  /// Reads the next line. `path` receives the path, "" for anonymous memory, truncated to `path_size` bytes with its
  /// NUL. Returns false at the end and when the file cannot be read (read_failed()).
  bool next(Mapping& mapping, char* path, std::size_t path_size) noexcept;
  bool read_failed() const noexcept { return read_failed_; }

  void close() noexcept;

 private:
  int next_byte() noexcept;
  std::uint64_t number(unsigned base, int& after) noexcept;

  char* buffer_;
  std::size_t bytes_;
  int fd_;
  std::uint64_t position_ = 0;  ///< of what is read next
  long at_ = 0;
  long length_ = 0;
  bool read_failed_ = false;
};

/// Finds the mapping that holds `address` and its path, as MapsReader::next(). Without room for a path, it may be
/// marked as truncated or not. Returns false when there is no mapping or /proc is not mounted. Uses 1 KB of stack.
bool find_mapping(std::uint64_t address, Mapping& mapping, char* path, std::size_t path_size) noexcept;

/// Finds the first mapping that the kernel calls `name`, such as "[vvar]"; at most 15 bytes. `next`: it is probably
/// one of the mappings directly before this address.
bool find_mapping(const char* name, Mapping& mapping, std::uint64_t next = 0) noexcept;

/// Asks the kernel for the mapping that holds `address`. `descriptor`: of /proc/self/maps. Returns false, and changes
/// nothing but `path`, if there is none, if its path does not fit or has a line break, or if the kernel has no such
/// call.
bool query_mapping(int descriptor, std::uint64_t address, Mapping& mapping, char* path,
                   std::size_t path_size) noexcept;

}  // namespace heapprof::sys
