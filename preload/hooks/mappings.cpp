// Mappings and the program break. Always through libc's functions, never a system call of ours: libc's
// notion of the break, its errors and its rounding stay its own.
//
// No AllocatorCall here: mappings are not blocks. The recorder sees by itself that one was made from inside
// an allocator.
#include "preload/hooks/mappings.h"

#include "preload/hooks/hook.h"

namespace heapprof::hooks {

using arch::entry_registers;
using arch::EntryRegisters;

namespace {

void report_break(const void* old_break, const EntryRegisters& entry) noexcept {
  const void* new_break = real().sbrk(0);
  if (new_break != old_break) recorder::break_moved(old_break, new_break, entry);
}

}  // namespace

HEAPPROF_HOOK(void*, mmap,
              (void* address, std::size_t bytes, int protection, int flags, int fd, std::int64_t offset)) {
  const EntryRegisters entry = entry_registers();
  return record_mmap(bytes, protection, flags, entry,
                     [=] { return real().mmap(address, bytes, protection, flags, fd, offset); });
}

HEAPPROF_HOOK(void*, mmap64,
              (void* address, std::size_t bytes, int protection, int flags, int fd, std::int64_t offset)) {
  const EntryRegisters entry = entry_registers();
  return record_mmap(bytes, protection, flags, entry,
                     [=] { return real().mmap64(address, bytes, protection, flags, fd, offset); });
}

HEAPPROF_HOOK(int, munmap, (void* address, std::size_t bytes)) {
  const EntryRegisters entry = entry_registers();
  return record_munmap(address, bytes, entry, [=] { return real().munmap(address, bytes); });
}

// Variadic in sys/mman.h. The fifth argument is there or its register holds anything; the real one looks at
// it when the flags say so.
HEAPPROF_HOOK(void*, mremap,
              (void* old_address, std::size_t old_bytes, std::size_t new_bytes, int flags, void* new_address)) {
  const EntryRegisters entry = entry_registers();
  return record_mremap(old_address, old_bytes, new_bytes, flags, entry,
                       [=] { return real().mremap(old_address, old_bytes, new_bytes, flags, new_address); });
}

// Where the break is afterwards is asked, not computed: the kernel may leave it and libc call that success.
// sbrk(0) is no system call.
HEAPPROF_HOOK(int, brk, (void* address)) {
  const EntryRegisters entry = entry_registers();
  const void* old_break = real().sbrk(0);
  const int result = real().brk(address);
  if (result == 0) report_break(old_break, entry);
  return result;
}

HEAPPROF_HOOK(void*, sbrk, (std::intptr_t increment)) {
  const EntryRegisters entry = entry_registers();
  void* old_break = real().sbrk(increment);
  if (increment != 0 && old_break != reinterpret_cast<void*>(-1)) report_break(old_break, entry);
  return old_break;
}

}  // namespace heapprof::hooks
