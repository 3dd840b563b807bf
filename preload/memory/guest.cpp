// What preload/memory/guest.h puts in the place of libc for the C libraries inside the recorder: the kernel
// by raw system calls, and the recorder's own memory. Failures are libc's return values; none sets errno.
// Hidden as everything in the core (-fvisibility=hidden).
#include <cstddef>
#include <cstdint>

#include "preload/memory/own_memory.h"
#include "preload/sys/kernel.h"

namespace sys = heapprof::sys;

extern "C" {

#ifdef __aarch64__
// What Debian's LZ4 compares its stack frames with. The usual one is a variable of ld.so, which the recorder must not
// need; this one is no secret, and still sees an overflow.
std::uintptr_t __stack_chk_guard = 0x00ff0a0d5ca1ab1e;
#endif

void* heapprof_guest_mmap(void* address, std::size_t bytes, int protection, int flags, int fd, long offset) {
  void* pages = sys::map(address, bytes, protection, flags, fd, static_cast<std::uint64_t>(offset));
  return sys::failed(pages) ? MAP_FAILED : pages;
}

int heapprof_guest_munmap(void* address, std::size_t bytes) {
  return sys::failed(sys::call(SYS_munmap, sys::word(address), static_cast<long>(bytes))) ? -1 : 0;
}

int heapprof_guest_mprotect(void* address, std::size_t bytes, int protection) {
  return sys::failed(sys::call(SYS_mprotect, sys::word(address), static_cast<long>(bytes), protection)) ? -1 : 0;
}

int heapprof_guest_madvise(void* address, std::size_t bytes, int advice) {
  return sys::failed(sys::advise(address, bytes, advice)) ? -1 : 0;
}

/// Bytes filled, or -1.
long heapprof_guest_random(void* buffer, std::size_t bytes) {
  return sys::random(buffer, bytes) ? static_cast<long>(bytes) : -1;
}

void* heapprof_guest_malloc(std::size_t bytes) noexcept { return heapprof::memory::own_alloc(bytes); }

void* heapprof_guest_calloc(std::size_t count, std::size_t bytes) noexcept {
  std::size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) return nullptr;
  void* block = heapprof::memory::own_alloc(total);
  if (block != nullptr) __builtin_memset(block, 0, total);
  return block;
}

void heapprof_guest_free(void* block) noexcept { heapprof::memory::own_free(block); }

// The library is linked with --wrap: what an archive inside it calls malloc is this, not the exported hook.
[[gnu::alias("heapprof_guest_malloc")]] void* __wrap_malloc(std::size_t bytes) noexcept;
[[gnu::alias("heapprof_guest_calloc")]] void* __wrap_calloc(std::size_t count, std::size_t bytes) noexcept;
[[gnu::alias("heapprof_guest_free")]] void __wrap_free(void* block) noexcept;

}  // extern "C"
