// The heap: malloc and everything that allocates or frees blocks.
//
// What is recorded is what the program asked for. A function of the real allocator may be made of others
// that are hooks too (a second preloaded allocator whose memalign calls malloc); AllocatorCall sees to it
// that one block counts once.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "preload/hooks/hook.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;
using recorder::AllocatorCall;

namespace {

/// Inlined into the hook, whose registers these are. Read where they are needed: in a variable they would go through
/// memory.
[[gnu::always_inline]] inline void* report(void* block, std::size_t size, const AllocatorCall& call) noexcept {
  if (block != nullptr) [[likely]] {
    recorder::allocated(block, size, entry_registers(), call);
  } else {
    recorder::allocation_failed(size, entry_registers());
  }
  return block;
}

/// `call_real` makes the real call. libc's reallocarray ends in a jump to our realloc, which leaves the telling to
/// the outer hook, whose caller is the program: it finds the block begun already, or itself called by a hook.
template <typename Call>
[[gnu::always_inline]] inline void* reallocate(void* old_block, std::size_t size, const EntryRegisters& entry,
                                               Call&& call_real) noexcept {
  if (old_block == nullptr) {
    if (is_own(entry.pc)) return call_real();
    AllocatorCall call;
    void* block = call_real();
    call.done();
    return report(block, size, call);
  }
  const bool begun = recorder::realloc_begin(old_block, entry);
  AllocatorCall call;
  void* block = call_real();
  call.done();
  if (begun) [[likely]] recorder::realloc_end(old_block, block, size, entry, call);
  return block;
}

}  // namespace

HEAPPROF_HOOK(void*, malloc, (std::size_t size)) {
  AllocatorCall call;
  void* block = real().malloc(size);
  call.done();
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, calloc, (std::size_t count, std::size_t size)) {
  AllocatorCall call;
  void* block = real().calloc(count, size);
  call.done();
  std::size_t total;
  if (__builtin_mul_overflow(count, size, &total)) total = SIZE_MAX;
  return report(block, total, call);
}

HEAPPROF_HOOK(void*, realloc, (void* old_block, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  return reallocate(old_block, size, entry, [=] { return real().realloc(old_block, size); });
}

// Not by real().realloc: an allocator in front of us that has no reallocarray of its own is reached by
// libc's, which calls the first realloc there is, and the block is that allocator's.
HEAPPROF_HOOK(void*, reallocarray, (void* old_block, std::size_t count, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  std::size_t total;
  if (__builtin_mul_overflow(count, size, &total)) [[unlikely]] {
    AllocatorCall call;
    void* block = real().reallocarray(old_block, count, size);
    call.done();
    return report(block, SIZE_MAX, call);
  }
  return reallocate(old_block, total, entry, [=] { return real().reallocarray(old_block, count, size); });
}

HEAPPROF_HOOK(void, free, (void* block)) {
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::freed(block, entry);
  }
  real().free(block);
}

// Where there is no real one, the block goes to the free that the program itself would call: our hook, which
// records the release, or that of an allocator in front of us, whose block it is. By a jump, so that it looks
// as if the program had.

HEAPPROF_HOOK(void, cfree, (void* block)) {
  if (real().cfree == nullptr) return real().program_free(block);
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::freed(block, entry);
  }
  real().cfree(block);
}

HEAPPROF_HOOK(void, free_sized, (void* block, std::size_t size)) {
  if (real().free_sized == nullptr) return real().program_free(block);
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::freed(block, entry);
  }
  real().free_sized(block, size);
}

HEAPPROF_HOOK(void, free_aligned_sized, (void* block, std::size_t alignment, std::size_t size)) {
  if (real().free_aligned_sized == nullptr) return real().program_free(block);
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::freed(block, entry);
  }
  real().free_aligned_sized(block, alignment, size);
}

HEAPPROF_HOOK(int, posix_memalign, (void** block, std::size_t alignment, std::size_t size)) {
  AllocatorCall call;
  const int result = real().posix_memalign(block, alignment, size);
  call.done();
  // EINVAL is an alignment that there is not: nothing was asked of the heap.
  if (result != EINVAL) [[likely]] report(result == 0 ? *block : nullptr, size, call);
  return result;
}

HEAPPROF_HOOK(void*, aligned_alloc, (std::size_t alignment, std::size_t size)) {
  AllocatorCall call;
  void* block = real().aligned_alloc(alignment, size);
  call.done();
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, memalign, (std::size_t alignment, std::size_t size)) {
  AllocatorCall call;
  void* block = real().memalign(alignment, size);
  call.done();
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, valloc, (std::size_t size)) {
  AllocatorCall call;
  void* block = real().valloc(size);
  call.done();
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, pvalloc, (std::size_t size)) {
  AllocatorCall call;
  void* block = real().pvalloc(size);
  call.done();
  return report(block, size, call);
}

}  // namespace heapprof::hooks
