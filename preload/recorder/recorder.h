// What the hooks tell the recorder. The hooks are a thin shell: they call the real function and report
// before or after it, in this order (design 2.4):
//
//   malloc       AllocatorCall call;  p = real(n);  call.done();  allocated(p, n, entry, call)
//   free         freed(p, entry);  real(p)
//   realloc      begin = realloc_begin(p, entry);  AllocatorCall call;  q = real(p, n);  call.done();
//                realloc_end(begin, p, q, n, entry, call)
//   mmap         p = real(...);  mapped(...)
//   munmap       unmap_begin(...);  real(...);  unmap_end(...)
//
// None of these allocates through the hooks, takes a lock, changes errno, or fails: trouble switches
// recording off (recorder/lifecycle.h). All are quick when recording is off or not yet possible. They may
// be called from any thread, from signal handlers and from each other's calls into the allocator.
//
// The first call starts the recorder. libc must be ready then: the hooks serve earlier calls, and those
// made while dlsym resolves the real functions, from their own arena, and do not report them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/note_kind.h"
#include "preload/arch/arch.h"
#include "preload/recorder/thread/thread_local.h"

namespace heapprof::recorder {

using arch::EntryRegisters;

/// Marks, for its life, that the thread is inside the real allocator. Hooks that the allocator itself
/// calls record as usual; afterwards the outer hook asks whether one of them already recorded its block,
/// so that no block counts twice, and mappings made meanwhile are flagged as the allocator's.
class AllocatorCall {
 public:
  AllocatorCall() noexcept : depth_before_(t_local.allocator_depth) {
    t_local.allocator_depth = depth_before_ + 1;
    // A signal handler's allocations count as made during this call from here on, or not at all. One that comes
    // before the next line finds the last call's blocks, which is why inner calls look only at what was added since.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (depth_before_ == 0) [[likely]] t_local.inner_blocks.clear();
    else blocks_before_ = t_local.inner_blocks.count();
  }
  /// The real function has returned. Not a destructor: a longjmp or a cancellation passes without it.
  void done() noexcept { t_local.allocator_depth = depth_before_; }
  /// No other one is around it.
  bool outermost() const noexcept { return depth_before_ == 0; }
  /// True when an inner hook recorded `block` as its allocation during this call.
  bool recorded(const void* block) const noexcept {
    if (t_local.inner_blocks.count() == 0) [[likely]] return false;
    return t_local.inner_blocks.has(block, outermost() ? 0 : blocks_before_);
  }

 private:
  std::uint32_t depth_before_;
  std::uint32_t blocks_before_;  ///< unless this is the outermost
};

namespace detail {
// In registers: on the way of every event.
void allocated(const void* block, std::size_t size, std::uint64_t pc, std::uint64_t sp, std::uint64_t fp) noexcept;
void allocated_inside(const void* block, std::size_t size, std::uint64_t pc, std::uint64_t sp,
                      std::uint64_t fp) noexcept;
void freed(const void* block, std::uint64_t pc, std::uint64_t sp, std::uint64_t fp) noexcept;
}  // namespace detail

/// `block`, not null, was returned for a request of `size` bytes. Does nothing when call.recorded(block).
[[gnu::always_inline]] inline void allocated(const void* block, std::size_t size, const EntryRegisters& entry,
                                             const AllocatorCall& call) noexcept {
  if (call.recorded(block)) [[unlikely]] return;
  if (call.outermost()) [[likely]] detail::allocated(block, size, entry.pc, entry.sp, entry.fp);
  else detail::allocated_inside(block, size, entry.pc, entry.sp, entry.fp);
}
void allocation_failed(std::size_t size, const EntryRegisters& entry) noexcept;

/// `block`, not null, is about to be given to the real free.
[[gnu::always_inline]] inline void freed(const void* block, const EntryRegisters& entry) noexcept {
  detail::freed(block, entry.pc, entry.sp, entry.fp);
}

/// `old_block`, not null, is about to be given to the real realloc. False: recording is off, or a hook
/// further out (reallocarray) has told of it already; realloc_end must not be told.
bool realloc_begin(const void* old_block, const EntryRegisters& entry) noexcept;
/// The real realloc returned `new_block` (null with size 0: the old one was freed; null otherwise: failed,
/// the old block lives on).
void realloc_end(const void* old_block, const void* new_block, std::size_t size,
                 const EntryRegisters& entry, const AllocatorCall& call) noexcept;

/// mmap returned `address` (not MAP_FAILED) for `size` bytes.
void mapped(const void* address, std::size_t size, int protection, int flags,
            const EntryRegisters& entry) noexcept;
void unmap_begin(const void* address, std::size_t size, const EntryRegisters& entry) noexcept;
void unmap_end(bool succeeded) noexcept;
void remap_begin(const void* old_address, std::size_t old_size, const EntryRegisters& entry) noexcept;
/// `new_address` null: mremap failed.
void remap_end(const void* new_address, std::size_t new_size, const EntryRegisters& entry) noexcept;
/// The program break moved (brk, sbrk).
void break_moved(const void* old_break, const void* new_break, const EntryRegisters& entry) noexcept;

/// The host is about to enter seccomp or to forbid the cycle clock (prctl, syscall): from here on no
/// system call and, with `no_cycle_clock`, no cycle clock; recording goes on in space already mapped.
void restrict_system_calls(bool no_cycle_clock) noexcept;
/// The kernel refused it: takes back what the last call said, of which others may have said the same.
void restriction_refused(bool no_cycle_clock) noexcept;

/// The host's exit handlers are running (our destructor): marks the trace as ended by exit. Events that
/// still follow are recorded.
void exit_reached() noexcept;

/// Something about the recording that its reader should be told, in English. `kind`: what it means for the figures.
void note(const char* text, NoteKind kind = NoteKind::kInformation) noexcept;

/// `watcher` is called at every event that comes out of the loader (unwind::is_loader), on the thread that makes it,
/// which may be inside the recorder. Once, before there are threads.
void watch_loader(void (*watcher)() noexcept) noexcept;

// heapprof.h's calls (exported by the hooks).
void pause() noexcept;
void resume() noexcept;
void mark(const char* text) noexcept;
bool is_recording() noexcept;

}  // namespace heapprof::recorder
