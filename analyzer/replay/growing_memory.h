// Memory for a large table that grows in place: what it contains is moved by the kernel's page tables, not copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace heapprof::replay {

class GrowingMemory {
 public:
  GrowingMemory() = default;
  GrowingMemory(const GrowingMemory&) = delete;
  GrowingMemory& operator=(const GrowingMemory&) = delete;
  ~GrowingMemory() { unmap(begin_, bytes_); }

  void swap(GrowingMemory& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
  }

  void* begin() const noexcept { return begin_; }

  /// Keeps the contents, as far as they fit; new bytes are 0. Throws std::bad_alloc, and then changes nothing.
  void resize(std::size_t bytes) {
    bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
    if (bytes == bytes_) return;
    void* grown = begin_ == nullptr ? MAP_FAILED : ::mremap(begin_, bytes_, bytes, 0);
    if (grown == MAP_FAILED) grown = map(bytes);
    if (begin_ != nullptr && grown != begin_ &&
        ::mremap(begin_, bytes_, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, grown) == MAP_FAILED) {
      unmap(grown, bytes);
      throw std::bad_alloc();
    }
    if (bytes >= kHugeBytes) ::madvise(grown, bytes, MADV_HUGEPAGE);
    begin_ = grown;
    bytes_ = bytes;
  }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kHugeBytes = std::size_t{2}
                                            << 20;  // pages are moved whole only between such addresses

  static void unmap(void* memory, std::size_t bytes) noexcept {
    if (bytes != 0) ::munmap(memory, bytes);
  }

  static void* map(std::size_t bytes) {
    const std::size_t more = bytes >= kHugeBytes ? kHugeBytes : 0;
    void* const memory =
        ::mmap(nullptr, bytes + more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    if (more == 0) return memory;
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const std::uintptr_t aligned = (address + kHugeBytes - 1) / kHugeBytes * kHugeBytes;
    unmap(memory, aligned - address);
    unmap(reinterpret_cast<void*>(aligned + bytes), address + more - aligned);
    return reinterpret_cast<void*>(aligned);
  }

  void* begin_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace heapprof::replay
