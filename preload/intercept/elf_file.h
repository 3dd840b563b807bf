// Reads the ELF file of a loaded object.
//
// The file is read into mapped memory, because another process may truncate it: access to a mapping of it would raise
// SIGBUS. Raw system calls, no allocation.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace heapprof::intercept {

/// Limit for one read table, so that recording does not take much of the host's memory.
inline constexpr std::uint64_t kMaxTableBytes = 512u << 20;

/// Zeroed memory, unmapped by the destructor. Converts to false when mapping failed, or `bytes` is 0 or exceeds
/// kMaxTableBytes.
class Buffer {
 public:
  explicit Buffer(std::uint64_t bytes) noexcept;
  Buffer(const Buffer&) = delete;
  void operator=(const Buffer&) = delete;
  ~Buffer();
  char* data() const noexcept { return memory_; }
  explicit operator bool() const noexcept { return memory_ != nullptr; }

 private:
  std::uint64_t bytes_;
  char* memory_ = nullptr;
};

/// Memory for tables that are read one after the other. Zeroed memory is a valid object.
class Scratch {
 public:
  /// Memory for `bytes` bytes, until the next call; its contents are unspecified. Null: as Buffer.
  char* reserve(std::uint64_t bytes) noexcept;
  void release() noexcept;

 private:
  std::uint64_t bytes_;
  char* memory_;
};

/// The headers of an open file. Zeroed memory is a valid object, except that `fd` must be set.
struct ElfFile {
  int fd;
  ElfW(Ehdr) header;
  ElfW(Phdr) segments[32];
  unsigned segment_count;
};
// As in nearly every file, so that read_headers() reads both at once.
static_assert(offsetof(ElfFile, segments) == offsetof(ElfFile, header) + sizeof(ElfFile::header));

/// Reads exactly `bytes` bytes. Returns false when the file is shorter, or the read failed.
bool read_at(int fd, void* to, std::uint64_t bytes, std::uint64_t offset) noexcept;

/// Reads the headers of `file.fd`. Returns false when it is not a 64-bit ELF file.
bool read_headers(ElfFile& file) noexcept;

}  // namespace heapprof::intercept
