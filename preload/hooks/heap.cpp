// Hooks of the functions that allocate and free heap blocks.
//
// A hook records the size that the program requested. The real allocator may implement one function by calling
// another that is hooked too (memalign of a preloaded allocator may call malloc). AllocatorCall ensures that such a
// block is recorded once.
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "preload/base/alignment.h"
#include "preload/hooks/hook.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;
using recorder::AllocatorCall;

namespace {

/// Reports the result of an allocation. Inlined into the hook, because entry_registers() reads the hook's frame.
/// entry_registers() is called in each branch, because the compiler would store a variable to memory.
[[gnu::always_inline]] inline void* report(void* block, std::size_t size, const AllocatorCall& call) noexcept {
  if (block != nullptr) [[likely]] {
    recorder::allocated(block, size, entry_registers(), call);
  } else {
    recorder::allocation_failed(size, entry_registers());
  }
  return block;
}

/// Reports a reallocation; `call_real` calls the real function. libc's reallocarray ends in a jump to the realloc
/// hook, which must not report the same call again. The realloc hook detects this: realloc_begin returns false or, if
/// the old block is null, the return address is in this library.
template <typename Call>
[[gnu::always_inline]] inline void* reallocate(void* old_block, std::size_t size, const EntryRegisters& entry,
                                               Call&& call_real) noexcept {
  if (old_block == nullptr) {
    if (is_in_this_library(to_address(entry.pc))) return call_real();
    AllocatorCall call;
    void* block = call_real();
    call.done();
    return report(block, size, call);
  }
  const void* const outer = recorder::t_local.reallocating;
  const bool begun = recorder::realloc_begin(old_block, entry);
  AllocatorCall call;
  void* block = call_real();
  call.done();
  if (begun) [[likely]] {
    recorder::realloc_end(old_block, block, size, entry, call);
    // The outer call, which a signal handler interrupted, may not have freed its old block yet.
    if (!call.outermost() && outer != block) recorder::t_local.reallocating = outer;
  }
  return block;
}

/// Records a free by a function other than free; `call_real` calls the real one. That may call the hook of free
/// (free_sized of glibc 2.43 does), which must not record the block again: it finds it in `reallocating`.
template <typename Call>
[[gnu::always_inline]] inline void record_free(void* block, const EntryRegisters& entry, Call&& call_real) noexcept {
  if (block == nullptr) return call_real();
  recorder::freed(block, entry);
  const void* const outer = recorder::t_local.reallocating;
  ++recorder::t_local.allocator_depth;
  recorder::t_local.reallocating = block;
  call_real();
  recorder::t_local.reallocating = outer == block ? nullptr : outer;
  --recorder::t_local.allocator_depth;
}

}  // namespace

HEAPPROF_HOOK(void*, malloc, (std::size_t size)) {
  AllocatorCall call;
  void* block = real::functions().malloc(size);
  call.done();
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, calloc, (std::size_t count, std::size_t size)) {
  AllocatorCall call;
  void* block = real::functions().calloc(count, size);
  call.done();
  std::size_t total;
  if (__builtin_mul_overflow(count, size, &total)) total = SIZE_MAX;
  return report(block, total, call);
}

HEAPPROF_HOOK(void*, realloc, (void* old_block, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  return reallocate(old_block, size, entry, [=] { return real::functions().realloc(old_block, size); });
}

// Calls the real reallocarray, not the real realloc. Another preloaded allocator before this library may lack
// reallocarray: libc's version then calls that allocator's realloc, which owns the block.
HEAPPROF_HOOK(void*, reallocarray, (void* old_block, std::size_t count, std::size_t size)) {
  const EntryRegisters entry = entry_registers();
  std::size_t total;
  if (__builtin_mul_overflow(count, size, &total)) [[unlikely]] {
    AllocatorCall call;
    void* block = real::functions().reallocarray(old_block, count, size);
    call.done();
    return report(block, SIZE_MAX, call);
  }
  return reallocate(old_block, total, entry, [=] { return real::functions().reallocarray(old_block, count, size); });
}

HEAPPROF_HOOK(void, free, (void* block)) {
  if (block != nullptr) {
    const EntryRegisters entry = entry_registers();
    recorder::freed(block, entry);
  }
  real::functions().free(block);
}

// The address of the hook, for preload/python/freed_code.cpp. By the alias it is this hook's also if another library
// before this one defines free.
extern "C" {
[[gnu::alias("free"), gnu::visibility("hidden")]] void heapprof_free_hook(void* block) noexcept;
[[gnu::visibility("hidden")]] extern void (*const heapprof_free_hook_address)(void*) noexcept;
void (*const heapprof_free_hook_address)(void*) noexcept = heapprof_free_hook;
}

// Without a real cfree, free_sized or free_aligned_sized, the hook jumps to the free that the program would call:
// the free hook, which records the call, or the free of an allocator before this library, which owns the block. A
// jump keeps the program's return address, so the recorded stack is the program's.

HEAPPROF_HOOK(void, cfree, (void* block)) {
  if (real::functions().cfree == nullptr) return real::functions().program_free(block);
  const EntryRegisters entry = entry_registers();
  record_free(block, entry, [=] { real::functions().cfree(block); });
}

HEAPPROF_HOOK(void, free_sized, (void* block, std::size_t size)) {
  if (real::functions().free_sized == nullptr) return real::functions().program_free(block);
  const EntryRegisters entry = entry_registers();
  record_free(block, entry, [=] { real::functions().free_sized(block, size); });
}

HEAPPROF_HOOK(void, free_aligned_sized, (void* block, std::size_t alignment, std::size_t size)) {
  if (real::functions().free_aligned_sized == nullptr) return real::functions().program_free(block);
  const EntryRegisters entry = entry_registers();
  record_free(block, entry, [=] { real::functions().free_aligned_sized(block, alignment, size); });
}

HEAPPROF_HOOK(int, posix_memalign, (void** block, std::size_t alignment, std::size_t size)) {
  AllocatorCall call;
  const int result = real::functions().posix_memalign(block, alignment, size);
  call.done();
  // EINVAL: the alignment is invalid, so no memory was requested.
  if (result != EINVAL) [[likely]]
    report(result == 0 ? *block : nullptr, size, call);
  return result;
}

HEAPPROF_HOOK(void*, aligned_alloc, (std::size_t alignment, std::size_t size)) {
  AllocatorCall call;
  void* block = real::functions().aligned_alloc(alignment, size);
  call.done();
  if (block == nullptr && may_be_refused(alignment, ZeroAlignment::kRefused)) return nullptr;
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, memalign, (std::size_t alignment, std::size_t size)) {
  AllocatorCall call;
  void* block = real::functions().memalign(alignment, size);
  call.done();
  if (block == nullptr && may_be_refused(alignment, ZeroAlignment::kAny)) return nullptr;
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, valloc, (std::size_t size)) {
  AllocatorCall call;
  void* block = real::functions().valloc(size);
  call.done();
  return report(block, size, call);
}

HEAPPROF_HOOK(void*, pvalloc, (std::size_t size)) {
  AllocatorCall call;
  void* block = real::functions().pvalloc(size);
  call.done();
  return report(block, size, call);
}

}  // namespace heapprof::hooks
