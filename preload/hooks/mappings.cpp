// Hooks of mmap, munmap, mremap, brk and sbrk. They call libc's functions, never the kernel: libc's record of the
// program break, its error codes and its rounding stay as they are without the recorder.
//
// Mappings are not blocks, so there is no AllocatorCall. The recorder itself detects mappings that an
// allocator requests.
#include "preload/hooks/mappings.h"

#include "preload/hooks/hook.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;

namespace {

void report_break(const void* old_break, const EntryRegisters& entry) noexcept {
  const void* new_break = real::functions().sbrk(0);
  if (new_break != old_break) recorder::break_moved(old_break, new_break, entry);
}

}  // namespace

HEAPPROF_HOOK(void*, mmap,
              (void* address, std::size_t bytes, int protection, int flags, int fd, std::int64_t offset)) {
  const EntryRegisters entry = entry_registers();
  return record_mmap(address, bytes, protection, flags, entry,
                     [=] { return real::functions().mmap(address, bytes, protection, flags, fd, offset); });
}

HEAPPROF_HOOK(void*, mmap64,
              (void* address, std::size_t bytes, int protection, int flags, int fd, std::int64_t offset)) {
  const EntryRegisters entry = entry_registers();
  return record_mmap(address, bytes, protection, flags, entry,
                     [=] { return real::functions().mmap64(address, bytes, protection, flags, fd, offset); });
}

HEAPPROF_HOOK(int, munmap, (void* address, std::size_t bytes)) {
  const EntryRegisters entry = entry_registers();
  return record_munmap(address, bytes, entry, [=] { return real::functions().munmap(address, bytes); });
}

// Variadic in sys/mman.h. When the caller omits the fifth argument, its register holds an arbitrary value; the real
// function reads it only when the flags require it.
HEAPPROF_HOOK(void*, mremap,
              (void* old_address, std::size_t old_bytes, std::size_t new_bytes, int flags, void* new_address)) {
  const EntryRegisters entry = entry_registers();
  return record_mremap(old_address, old_bytes, new_bytes, flags, new_address, entry, [=] {
    return real::functions().mremap(old_address, old_bytes, new_bytes, flags, new_address);
  });
}

// sbrk(0) reads the new break: the kernel may leave it unchanged although libc reports success. sbrk(0)
// makes no system call.
HEAPPROF_HOOK(int, brk, (void* address)) {
  const EntryRegisters entry = entry_registers();
  const void* old_break = real::functions().sbrk(0);
  const int result = real::functions().brk(address);
  if (result == 0) report_break(old_break, entry);
  return result;
}

HEAPPROF_HOOK(void*, sbrk, (std::intptr_t increment)) {
  const EntryRegisters entry = entry_registers();
  void* old_break = real::functions().sbrk(increment);
  if (increment != 0 && old_break != reinterpret_cast<void*>(-1)) report_break(old_break, entry);
  return old_break;
}

}  // namespace heapprof::hooks
