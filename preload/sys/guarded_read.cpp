#include "preload/sys/guarded_read.h"

#include <sys/uio.h>

#include <cstdint>

#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::sys {

namespace {

constexpr long kFault = -14;  // EFAULT

}  // namespace

void GuardedReader::read_directly() noexcept {
  if (maps_fd_ < 0) maps_fd_ = open_maps();
}

/// Whether these bytes are in one mapping that may be read directly. The first question that the kernel does not
/// answer is the last one, because older kernels answer none.
bool GuardedReader::is_confirmed(std::uint64_t address, std::size_t bytes) noexcept {
  for (const Range& range : ranges_)
    if (range.contains(address, bytes)) return true;
  Mapping mapping;
  char no_path[1];
  if (!query_mapping(maps_fd_, address, mapping, no_path, sizeof no_path)) {
    stop_reading_directly();
    return false;
  }
  if (!mapping.readable || mapping.shared) return false;
  Range& range = ranges_[next_range_];
  next_range_ = (next_range_ + 1) % kRanges;
  range = {mapping.begin, mapping.end - mapping.begin};
  return range.contains(address, bytes);
}

void GuardedReader::stop_reading_directly() noexcept {
  if (maps_fd_ >= 0) sys::close(maps_fd_);
  maps_fd_ = -1;
  for (Range& range : ranges_) range = {};
}

bool GuardedReader::read(const void* from, void* to, std::size_t bytes) noexcept {
  ++reads_;
  if (may_read_directly(from, bytes)) {
    __builtin_memcpy(to, from, bytes);
    return true;
  }
  if (refused_) return false;
  if (file_first_) {
    open_memory();
    file_first_ = false;
  }
  if (memory_fd_ < 0) {
    if (process_ == 0) process_ = process_id();
    const iovec local{to, bytes};
    const iovec remote{const_cast<void*>(from), bytes};
    const long got = call(SYS_process_vm_readv, process_, word(&local), 1, word(&remote), 1);
    if (got >= 0 || got == kFault) return got == static_cast<long>(bytes);
    if (!open_memory()) {
      refused_ = true;
      return false;
    }
  }
  FileIdentity now;
  if (!identify(memory_fd_, now) || now != memory_) {
    refused_ = true;  // the host has closed the descriptor
    return false;
  }
  return pread(memory_fd_, to, bytes, reinterpret_cast<std::uint64_t>(from)) == static_cast<long>(bytes);
}

bool GuardedReader::open_memory() noexcept {
  const int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (failed(fd)) return false;
  memory_fd_ = duplicate_high(fd, 1000);
  if (failed(memory_fd_)) memory_fd_ = duplicate_high(fd, 100);
  if (failed(memory_fd_)) memory_fd_ = fd;
  else sys::close(fd);
  if (identify(memory_fd_, memory_)) return true;
  sys::close(memory_fd_);
  memory_fd_ = -1;
  return false;
}

bool GuardedReader::read_string(const char* from, char* to, std::size_t size) noexcept {
  constexpr std::size_t kPage = 4096;
  for (std::size_t length = 0; length < size;) {
    std::size_t bytes = kPage - reinterpret_cast<std::uintptr_t>(from + length) % kPage;
    if (bytes > size - length) bytes = size - length;
    if (may_read_directly(from + length, bytes)) {
      for (; bytes != 0; --bytes, ++length)
        if ((to[length] = from[length]) == '\0') return true;
      continue;
    }
    if (!read(from + length, to + length, bytes)) return false;
    for (; bytes != 0; --bytes)
      if (to[length++] == '\0') return true;
  }
  return false;
}

void GuardedReader::close() noexcept {
  FileIdentity now;
  if (memory_fd_ >= 0 && identify(memory_fd_, now) && now == memory_) sys::close(memory_fd_);
  memory_fd_ = -1;
  stop_reading_directly();
}

}  // namespace heapprof::sys
