// What preload/memory/guest.h puts in the place of libc for the C libraries inside the recorder: the kernel
// by raw system calls, and the recorder's own memory. Failures are libc's return values; none sets errno.
#include <cstddef>
#include <cstdint>

#include "preload/memory/own_memory.h"
#include "preload/sys/kernel.h"

namespace sys = heapprof::sys;

extern "C" {

[[gnu::visibility("hidden")]] void* heapprof_guest_mmap(void* address, std::size_t bytes, int protection, int flags, int fd,
                                                        long offset) {
  void* pages = sys::map(address, bytes, protection, flags, fd, static_cast<std::uint64_t>(offset));
  return sys::failed(pages) ? MAP_FAILED : pages;
}

[[gnu::visibility("hidden")]] int heapprof_guest_munmap(void* address, std::size_t bytes) {
  return sys::failed(sys::call(SYS_munmap, sys::word(address), static_cast<long>(bytes))) ? -1 : 0;
}

[[gnu::visibility("hidden")]] int heapprof_guest_mprotect(void* address, std::size_t bytes, int protection) {
  return sys::failed(sys::call(SYS_mprotect, sys::word(address), static_cast<long>(bytes), protection)) ? -1 : 0;
}

[[gnu::visibility("hidden")]] int heapprof_guest_madvise(void* address, std::size_t bytes, int advice) {
  return sys::failed(sys::advise(address, bytes, advice)) ? -1 : 0;
}

/// Bytes filled, or -1.
[[gnu::visibility("hidden")]] long heapprof_guest_random(void* buffer, std::size_t bytes) {
  return sys::random(buffer, bytes) ? static_cast<long>(bytes) : -1;
}

[[gnu::visibility("hidden")]] void* heapprof_guest_malloc(std::size_t bytes) { return heapprof::memory::own_alloc(bytes); }

[[gnu::visibility("hidden")]] void* heapprof_guest_calloc(std::size_t count, std::size_t bytes) {
  std::size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) return nullptr;
  void* block = heapprof::memory::own_alloc(total);
  if (block != nullptr) __builtin_memset(block, 0, total);
  return block;
}

[[gnu::visibility("hidden")]] void heapprof_guest_free(void* block) { heapprof::memory::own_free(block); }

}  // extern "C"
