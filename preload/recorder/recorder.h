// The interface for the hooks, which report in this order (docs/concepts/ordering.md explains why):
//
//   malloc       AllocatorCall call;  p = real(n);  call.done();  allocated(p, n, entry, call)
//   free         freed(p, entry);  real(p)
//   realloc      begin = realloc_begin(p, entry);  AllocatorCall call;  q = real(p, n);  call.done();
//                if (begin) realloc_end(p, q, n, entry, call)
//   mmap         p = real(...);  mapped(...)
//   munmap       unmap_begin(...);  real(...);  unmap_end(...)
//
// Unless a comment says otherwise, all functions may be called from any thread, from signal handlers, and from hooks
// that the real allocator calls. No function allocates through the hooks, takes a lock, changes errno or fails (on an
// error the recording stops). Calls before libc is ready are not recorded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/note_kind.h"
#include "preload/arch/arch.h"
#include "preload/recorder/thread/thread_local.h"

namespace heapprof::recorder {

using arch::EntryRegisters;

/// A call of the real allocator by a hook of this thread. Hooks that the allocator calls in turn (inner hooks) record
/// as usual. Then the outer hook checks with recorded() whether an inner hook has recorded its block already, so that
/// no block counts twice. Mappings that are created during the call are flagged as the allocator's.
class AllocatorCall {
 public:
  AllocatorCall() noexcept : depth_before_(t_local.allocator_depth) {
    t_local.allocator_depth = depth_before_ + 1;
    // From here on the allocations of a signal handler are inner calls. If the handler runs before the next
    // statement, the list contains blocks of the previous call. Therefore inner calls check only blocks that were
    // added after they began.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (depth_before_ == 0) [[likely]]
      t_local.inner_blocks.clear();
    else blocks_before_ = t_local.inner_blocks.count();
  }
  /// Call this when the real function has returned. This is not a destructor, because a longjmp or a cancellation
  /// would not run a destructor.
  void done() noexcept { t_local.allocator_depth = depth_before_; }
  /// Whether this is the outermost call of the allocator in this thread.
  bool outermost() const noexcept { return depth_before_ == 0; }
  /// True when an inner hook recorded `block` as its allocation during this call.
  bool recorded(const void* block) const noexcept {
    if (t_local.inner_blocks.count() == 0) [[likely]]
      return false;
    return t_local.inner_blocks.has(block, outermost() ? 0 : blocks_before_);
  }

 private:
  std::uint32_t depth_before_;
  std::uint32_t blocks_before_;  ///< inner_blocks.count() when this inner call began; not set in the outermost call
};

/// Calls of hooks by the code in [begin, end), while a hook is inside the real allocator, are parts of the outer call
/// and are not recorded; the outer hook records the block. For real functions that are made of hooks and whose own
/// frame must not be in the stack. At most 4 ranges, while there is one thread.
void record_outer_call_of(std::uint64_t begin, std::uint64_t end) noexcept;

namespace detail {
// Called for every event, so everything is passed in registers.
void allocated(const void* block, std::size_t size, ProgramCounter pc, StackPointer sp, std::uint64_t fp) noexcept;
void allocated_inside(const void* block, std::size_t size, ProgramCounter pc, StackPointer sp,
                      std::uint64_t fp) noexcept;
void freed(const void* block, ProgramCounter pc, StackPointer sp, std::uint64_t fp) noexcept;
}  // namespace detail

/// `block`, not null, was returned for a request of `size` bytes. Does nothing when call.recorded(block).
[[gnu::always_inline]] inline void allocated(const void* block, std::size_t size, const EntryRegisters& entry,
                                             const AllocatorCall& call) noexcept {
  if (call.recorded(block)) [[unlikely]]
    return;
  if (call.outermost()) [[likely]]
    detail::allocated(block, size, entry.pc, entry.sp, entry.fp);
  else detail::allocated_inside(block, size, entry.pc, entry.sp, entry.fp);
}
void allocation_failed(std::size_t size, const EntryRegisters& entry) noexcept;

/// `block`, not null, is about to be passed to the real free.
[[gnu::always_inline]] inline void freed(const void* block, const EntryRegisters& entry) noexcept {
  detail::freed(block, entry.pc, entry.sp, entry.fp);
}

/// `old_block`, not null, is about to be passed to the real realloc. Returns false if recording is off, or if an
/// outer hook (reallocarray) has recorded the call; then realloc_end must not be called.
bool realloc_begin(const void* old_block, const EntryRegisters& entry) noexcept;
/// The real realloc returned `new_block`. If it is null and `size` is 0, the old block was freed; if it is null
/// otherwise, realloc failed and the old block is still live.
void realloc_end(const void* old_block, const void* new_block, std::size_t size, const EntryRegisters& entry,
                 const AllocatorCall& call) noexcept;

/// mmap returned `address` (not MAP_FAILED) for `size` bytes.
void mapped(const void* address, std::size_t size, int protection, int flags, const EntryRegisters& entry) noexcept;
void unmap_begin(const void* address, std::size_t size, const EntryRegisters& entry) noexcept;
void unmap_end(const void* address, std::size_t size, bool succeeded) noexcept;
/// The contents of this range are about to change, or have changed: forgets the tick word and the stacks in it.
/// `flags`: those of mmap.
void forget_range(const void* address, std::size_t size, int flags = 0) noexcept;
void remap_begin(const void* old_address, std::size_t old_size, const EntryRegisters& entry) noexcept;
/// `new_address` is null if mremap failed.
void remap_end(const void* old_address, std::size_t old_size, const void* new_address, std::size_t new_size,
               const EntryRegisters& entry) noexcept;
/// The program break has moved (brk, sbrk).
void break_moved(const void* old_break, const void* new_break, const EntryRegisters& entry) noexcept;

/// The host is about to enter seccomp or to forbid the cycle clock (prctl, syscall). From here on the recorder makes
/// no system call and, with `no_cycle_clock`, does not read the cycle clock; it records into space that is mapped
/// already.
void restrict_system_calls(bool no_cycle_clock) noexcept;
/// The kernel refused the restriction: undoes one call of restrict_system_calls(). Other threads may have made more.
void restriction_refused(bool no_cycle_clock) noexcept;

/// The host's exit handlers are running (our destructor): marks the trace as ended by exit. Later events are still
/// recorded.
void exit_reached() noexcept;

/// Whether events of the caller are recorded into a trace of this process: recording has started and not stopped, and
/// this is neither a child that has no trace of its own, nor one that shares its parent's memory (vfork).
bool has_own_trace() noexcept;
enum class Ending : std::uint8_t { kExit, kExec };
/// The host is about to end without exit handlers (_exit, quick_exit), or to execute another program, which may fail:
/// takes a last sample, and a snapshot of resident pages if that is within their budget. Does nothing without
/// has_own_trace().
void about_to_end(Ending ending) noexcept;

/// Adds a note about the recording for the user, in English. `kind`: whether the figures are affected.
void note(const char* text, NoteKind kind = NoteKind::kInformation) noexcept;

/// Sets a function that is called at every event that comes from the loader (unwind::is_loader), on the event's
/// thread, possibly inside the recorder. Call it once, while there is one thread.
void watch_loader(void (*watcher)() noexcept) noexcept;

// The functions of heapprof.h, which the hooks export.
void pause() noexcept;
void resume() noexcept;
void mark(const char* text) noexcept;
bool is_recording() noexcept;

}  // namespace heapprof::recorder
