// Recording of mmap, munmap and mremap, shared by their hooks and by syscall(). `call` makes the real call and is
// called exactly once.
//
// A call that is to replace mappings (MAP_FIXED, MREMAP_FIXED) may fail after the kernel has unmapped them. So what
// is remembered of the range is forgotten before the call and after it, whatever it returns. The trace says nothing
// of the range then: only a look at the process's mappings would show what is left of it, and another thread may have
// mapped something there since.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "preload/recorder/recorder.h"

namespace heapprof::hooks {

template <typename Call>
[[gnu::always_inline]] inline void* record_mmap(const void* wanted, std::size_t bytes, int protection, int flags,
                                                const arch::EntryRegisters& entry, Call&& call) noexcept {
  const bool is_fixed = (flags & MAP_FIXED) != 0;
  if (is_fixed) recorder::forget_range(wanted, bytes, flags);
  void* address = call();
  if (is_fixed) recorder::forget_range(wanted, bytes, flags);
  if (address != MAP_FAILED) recorder::mapped(address, bytes, protection, flags, entry);
  return address;
}

template <typename Call>
[[gnu::always_inline]] inline int record_munmap(void* address, std::size_t bytes, const arch::EntryRegisters& entry,
                                                Call&& call) noexcept {
  recorder::unmap_begin(address, bytes, entry);
  const int result = call();
  recorder::unmap_end(address, bytes, result == 0);
  return result;
}

/// With an old size of 0, mremap maps the same shared pages a second time; with MREMAP_DONTUNMAP the old range stays
/// mapped (mremap(2)). Both add a mapping and remove only what MREMAP_FIXED replaces, so they are recorded as mmap.
template <typename Call>
[[gnu::always_inline]] inline void* record_mremap(void* old_address, std::size_t old_bytes, std::size_t new_bytes,
                                                  int flags, void* new_address, const arch::EntryRegisters& entry,
                                                  Call&& call) noexcept {
  const bool is_fixed = (flags & MREMAP_FIXED) != 0;
  constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP, Linux 5.7
  if (old_bytes == 0 || (flags & kDontUnmap) != 0) {
    const int kind = (old_bytes == 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS) | (is_fixed ? MAP_FIXED : 0);
    return record_mmap(new_address, new_bytes, PROT_READ | PROT_WRITE, kind, entry, call);
  }
  if (is_fixed) recorder::forget_range(new_address, new_bytes);
  recorder::remap_begin(old_address, old_bytes, entry);
  void* address = call();
  if (is_fixed) recorder::forget_range(new_address, new_bytes);
  recorder::remap_end(old_address, old_bytes, address == MAP_FAILED ? nullptr : address, new_bytes, entry);
  return address;
}

}  // namespace heapprof::hooks
