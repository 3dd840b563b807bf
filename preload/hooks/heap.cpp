// The heap: malloc and everything that allocates or frees blocks.
//
// What is recorded is what the program asked for. A function of the real allocator may be made of others
// that are hooks too (a second preloaded allocator whose memalign calls malloc); AllocatorCall sees to it
// that one block counts once.
#include <cstddef>
#include <cstdint>

#include "preload/hooks/hook.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;
using recorder::AllocatorCall;

namespace {

[[gnu::always_inline]] inline void* report(void* block, std::size_t size, const EntryRegisters& entry,
                                           const AllocatorCall& call) noexcept {
  if (block != nullptr) [[likely]] {
    recorder::allocated(block, size, entry, call);
  } else {
    recorder::allocation_failed(size, entry);
  }
  return block;
}

/// realloc and reallocarray, both with `size` as the product.
[[gnu::always_inline]] inline void* reallocate(void* old_block, std::size_t size,
                                               const EntryRegisters& entry) noexcept {
  if (old_block == nullptr) {
    AllocatorCall call;
    void* block = real().realloc(nullptr, size);
    call.done();
    return report(block, size, entry, call);
  }
  const bool begun = recorder::realloc_begin(old_block, entry);
  AllocatorCall call;
  void* block = real().realloc(old_block, size);
  call.done();
  if (begun) [[likely]] recorder::realloc_end(old_block, block, size, entry, call);
  return block;
}

}  // namespace

HEAPPROF_HOOK(void*, malloc, (std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  AllocatorCall call;
  void* block = real().malloc(size);
  call.done();
  return report(block, size, entry, call);
}

HEAPPROF_HOOK(void*, calloc, (std::size_t count, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  AllocatorCall call;
  void* block = real().calloc(count, size);
  call.done();
  std::size_t total;
  if (__builtin_mul_overflow(count, size, &total)) total = SIZE_MAX;
  return report(block, total, entry, call);
}

HEAPPROF_HOOK(void*, realloc, (void* old_block, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  return reallocate(old_block, size, entry);
}

// libc's own is an overflow check in front of realloc, which it calls through our hook. Calling realloc
// here keeps that one begin and one end; only an overflow is left to the real one.
HEAPPROF_HOOK(void*, reallocarray, (void* old_block, std::size_t count, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  std::size_t total;
  if (__builtin_mul_overflow(count, size, &total)) [[unlikely]] {
    recorder::allocation_failed(SIZE_MAX, entry);
    return real().reallocarray(old_block, count, size);
  }
  return reallocate(old_block, total, entry);
}

HEAPPROF_HOOK(void, free, (void* block)) {
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::released(block, entry);
  }
  real().free(block);
}

HEAPPROF_HOOK(void, cfree, (void* block)) {
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::released(block, entry);
  }
  if (real().cfree != nullptr) return real().cfree(block);
  real().free(block);
}

HEAPPROF_HOOK(void, free_sized, (void* block, std::size_t size)) {
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::released(block, entry);
  }
  if (real().free_sized != nullptr) return real().free_sized(block, size);
  real().free(block);
}

HEAPPROF_HOOK(void, free_aligned_sized, (void* block, std::size_t alignment, std::size_t size)) {
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::released(block, entry);
  }
  if (real().free_aligned_sized != nullptr) return real().free_aligned_sized(block, alignment, size);
  real().free(block);
}

HEAPPROF_HOOK(int, posix_memalign, (void** block, std::size_t alignment, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  AllocatorCall call;
  const int result = real().posix_memalign(block, alignment, size);
  call.done();
  report(result == 0 ? *block : nullptr, size, entry, call);
  return result;
}

HEAPPROF_HOOK(void*, aligned_alloc, (std::size_t alignment, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  AllocatorCall call;
  void* block = real().aligned_alloc(alignment, size);
  call.done();
  return report(block, size, entry, call);
}

HEAPPROF_HOOK(void*, memalign, (std::size_t alignment, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  AllocatorCall call;
  void* block = real().memalign(alignment, size);
  call.done();
  return report(block, size, entry, call);
}

HEAPPROF_HOOK(void*, valloc, (std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  AllocatorCall call;
  void* block = real().valloc(size);
  call.done();
  return report(block, size, entry, call);
}

HEAPPROF_HOOK(void*, pvalloc, (std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  AllocatorCall call;
  void* block = real().pvalloc(size);
  call.done();
  return report(block, size, entry, call);
}

}  // namespace heapprof::hooks
