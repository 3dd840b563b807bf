// Allocations, frees and reallocations.
//
// detail::allocated and detail::freed are the fast path, which calls no function. For everything unusual they jump to
// a function of the slow path: ..._slow if the thread has not entered its state yet, ..._entered if it has.
// tools/bench/instructions.json has their cost.
#include "preload/python/freed_code.h"
#include "preload/recorder/event_path.h"
#include "preload/recorder/process/fast_path_mode.h"
#include "preload/recorder/process/settings.h"

namespace heapprof::recorder {

namespace {

/// Adds the block to those that AllocatorCall::recorded() of an outer call finds.
inline void note_inner_block(const void* block) noexcept {
  if (t_local.allocator_depth != 0) t_local.inner_blocks.add(block);
}

/// Preconditions: `thread` has been entered, and recording is not paused.
inline void record_allocation(ThreadState& thread, const void* block, std::size_t size, std::uint32_t node) noexcept {
  append(thread, Op::kAlloc, time_of_block_event(thread, block, allocation_of(size)), block, size, node);
  note_inner_block(block);
  // The real realloc has already freed its old block, and a signal handler's allocation got the same address.
  if (t_local.reallocating == block) t_local.reallocating = nullptr;
}

struct CodeRange {
  std::uint64_t begin;
  std::uint64_t end;
};
/// Of record_outer_call_of(); unused ranges are empty.
constinit CodeRange g_allocator_code[4] = {};

bool is_part_of_outer_call(ProgramCounter pc) noexcept {
  for (const CodeRange& code : g_allocator_code)
    if (to_address(pc) - code.begin < code.end - code.begin) return true;
  return false;
}

/// A signal handler may allocate a block and free it during the real malloc, which then returns the same address:
/// that is another allocation, which must not count as recorded (AllocatorCall::recorded).
inline void forget_inner_block(const void* block) noexcept { t_local.inner_blocks.remove(block); }

// ---- allocations -----------------------------------------------------------------------------------

[[gnu::noinline]] void allocated_entered(ThreadState* thread, const void* block, std::size_t size, ProgramCounter pc,
                                         StackPointer sp, std::uint64_t fp) noexcept {
  const EntryRegisters entry{pc, sp, fp};
  if (!paused()) {
    record_allocation(*thread, block, size, capture(*thread, entry));
  } else {
    if (unwind::is_loader(pc)) [[unlikely]]
      loader_event();  // objects are loaded and unloaded in a pause, too
    if (python::is_on()) python::note_unread_event(pc);
    pass_paused_event(*thread);
  }
  leave(*thread);
}

/// The stack is not cached. Recording is not paused, because the fast-path guard is open.
[[gnu::noinline]] void allocated_uncached(ThreadState* thread, const void* block, std::size_t size, ProgramCounter pc,
                                          StackPointer sp, std::uint64_t fp) noexcept {
  record_allocation(*thread, block, size, capture(*thread, {pc, sp, fp}, true));
  leave(*thread);
}

[[gnu::noinline]] void allocated_slow(const void* block, std::size_t size, ProgramCounter pc, StackPointer sp,
                                      std::uint64_t fp) noexcept {
  if (ThreadState* const thread = enter()) allocated_entered(thread, block, size, pc, sp, fp);
}

/// The rest of the fast path where the stream does not own the page, or the event needs its own time.
inline void commit_with_own_time(ThreadState* thread, const void* block, PageEvent event, std::uint64_t op_size,
                                 NodeId node) noexcept {
  Stream& stream = thread->stream;
  stream.advance_time(time_at_page(stream.id(), stream.last_time(), false, block, event));
  if (!in_forked_child()) [[likely]]
    stream.commit_next(block, op_size, raw(node));
  leave(*thread);
}

[[gnu::noinline]] void allocated_with_own_time(ThreadState* thread, const void* block, std::size_t size,
                                               NodeId node) noexcept {
  commit_with_own_time(thread, block, allocation_of(size), op_size(Op::kAlloc, size), node);
}

[[gnu::noinline]] void freed_with_own_time(ThreadState* thread, const void* block) noexcept {
  commit_with_own_time(thread, block, PageEvent::kFree, op_size(Op::kFree, 0), NodeId::kNone);
}

inline bool is_mode(const char& mode) noexcept {
  return __atomic_load_n(&g_allocation_mode, __ATOMIC_RELAXED) == &mode;
}

/// The fast path, after the thread has entered its state. kTimed: the process has several threads.
template <bool kTimed>
[[gnu::always_inline]] inline void allocated_fast(ThreadState* thread, const void* block, std::size_t size,
                                                  ProgramCounter pc, StackPointer sp, std::uint64_t fp) noexcept {
  Stream& stream = thread->stream;
  if (!stream.in_run() || size >= kMaxSize || (kTimed && !is_mode(kMultiThreaded))) [[unlikely]]
    return allocated_entered(thread, block, size, pc, sp, fp);
  const NodeId node = thread->unwinder.find_cached({pc, sp, fp}, thread->definitions);
  if (node == NodeId::kNone) [[unlikely]]
    return allocated_uncached(thread, block, size, pc, sp, fp);
  const std::uint64_t op_and_size = op_size(Op::kAlloc, size);
  if constexpr (kTimed) {
    if (!owns_page(stream.id(), stream.last_time(), block, allocation_of(size))) [[unlikely]]
      return allocated_with_own_time(thread, block, size, node);
  }
  if (!in_forked_child()) [[likely]]
    stream.commit_next(block, op_and_size, raw(node));
  leave(*thread);
}

/// The fast path of programs whose Python frames are recorded.
[[gnu::noinline]] void allocated_with_python(ThreadState* thread, const void* block, std::size_t size,
                                             ProgramCounter pc, StackPointer sp, std::uint64_t fp) noexcept {
  Stream& stream = thread->stream;
  const bool ready = thread->python.is_ready();
  KnownStack known;
  if (ready) [[likely]]
    known = find_with_python(*thread, {pc, sp, fp});
  // Each call has registers of its own, so that the fast path does not store any.
  const std::uint32_t node = python::MixedStacks::is_node(known.found) ? raw(known.found)
                             : known.native != NodeId::kNone ? capture_with_python(*thread, {pc, sp, fp}, true, known)
                                                             : capture(*thread, {pc, sp, fp}, ready);
  // The capture may have defined nodes, which ends a run when the block is full.
  const bool single_threaded = is_single_threaded();
  if (!stream.in_run() || size >= kMaxSize || (!single_threaded && !multi_threaded_is_noted())) [[unlikely]] {
    record_allocation(*thread, block, size, node);
    return leave(*thread);
  }
  if (!single_threaded && !owns_page(stream.id(), stream.last_time(), block, allocation_of(size))) [[unlikely]]
    return allocated_with_own_time(thread, block, size, NodeId{node});
  if (!in_forked_child()) [[likely]]
    stream.commit_next(block, op_size(Op::kAlloc, size), node);
  leave(*thread);
}

[[gnu::noinline]] void allocated_timed(ThreadState* thread, const void* block, std::size_t size, ProgramCounter pc,
                                       StackPointer sp, std::uint64_t fp) noexcept {
  if (is_mode(kPythonFrames)) [[unlikely]]
    return allocated_with_python(thread, block, size, pc, sp, fp);
  allocated_fast<true>(thread, block, size, pc, sp, fp);
}

// ---- frees -----------------------------------------------------------------------------------------

/// Call it for each free that is not on the fast path, whether it is recorded or not. It may be called twice.
inline void notice_free(const void* block) noexcept {
  if (python::is_on()) python::block_freed(block);
}

[[gnu::noinline]] void freed_entered(ThreadState* thread, const void* block, ProgramCounter pc, StackPointer sp,
                                     std::uint64_t fp) noexcept {
  notice_free(block);
  if (g_settings.free_stacks) {
    const std::uint32_t node = capture(*thread, {pc, sp, fp});
    append(*thread, Op::kFreeStack, time_of_block_event(*thread, block, PageEvent::kFree), block, 0, node);
  } else {
    if (unwind::is_loader(pc)) loader_event();
    append(*thread, Op::kFree, time_of_block_event(*thread, block, PageEvent::kFree), block, 0, 0);
  }
  leave(*thread);
}

[[gnu::noinline]] void freed_slow(const void* block, ProgramCounter pc, StackPointer sp, std::uint64_t fp) noexcept {
  notice_free(block);
  if (t_local.allocator_depth != 0) {
    // The real realloc frees its old block by calling the hook of free. realloc_begin() has already recorded this.
    if (t_local.reallocating == block) return;
    forget_inner_block(block);
  }
  if (ThreadState* const thread = enter()) freed_entered(thread, block, pc, sp, fp);
}

[[gnu::noinline]] void freed_timed(ThreadState* thread, const void* block, ProgramCounter pc, StackPointer sp,
                                   std::uint64_t fp) noexcept {
  Stream& stream = thread->stream;
  if (__atomic_load_n(&g_free_mode, __ATOMIC_RELAXED) == &kPythonFrames) python::block_freed(block);
  const bool single_threaded = is_single_threaded();
  if (!single_threaded && !multi_threaded_is_noted()) [[unlikely]]
    return freed_entered(thread, block, pc, sp, fp);
  if (!single_threaded && !owns_page(stream.id(), stream.last_time(), block, PageEvent::kFree)) [[unlikely]]
    return freed_with_own_time(thread, block);
  if (!in_forked_child()) [[likely]]
    stream.commit_next(block, op_size(Op::kFree, 0), 0);
  leave(*thread);
}

}  // namespace

void detail::allocated(const void* block, std::size_t size, ProgramCounter pc, StackPointer sp,
                       std::uint64_t fp) noexcept {
  ThreadState* const thread = enter_fast();
  if (thread == nullptr) [[unlikely]]
    return allocated_slow(block, size, pc, sp, fp);
  if (*__atomic_load_n(&g_allocation_mode, __ATOMIC_RELAXED) == 0)
    return allocated_timed(thread, block, size, pc, sp, fp);
  allocated_fast<false>(thread, block, size, pc, sp, fp);
}

void detail::allocated_inside(const void* block, std::size_t size, ProgramCounter pc, StackPointer sp,
                              std::uint64_t fp) noexcept {
  if (!is_part_of_outer_call(pc)) allocated_slow(block, size, pc, sp, fp);
}

void record_outer_call_of(std::uint64_t begin, std::uint64_t end) noexcept {
  for (CodeRange& code : g_allocator_code) {
    if (code.end != 0) continue;
    code = {begin, end};
    return;
  }
}

void detail::freed(const void* block, ProgramCounter pc, StackPointer sp, std::uint64_t fp) noexcept {
  if (t_local.allocator_depth != 0) [[unlikely]]
    return freed_slow(block, pc, sp, fp);
  ThreadState* const thread = enter_fast();
  if (thread == nullptr) [[unlikely]]
    return freed_slow(block, pc, sp, fp);
  Stream& stream = thread->stream;
  if (unwind::is_loader(pc) || !stream.in_run()) [[unlikely]]
    return freed_entered(thread, block, pc, sp, fp);
  if (*__atomic_load_n(&g_free_mode, __ATOMIC_RELAXED) == 0) return freed_timed(thread, block, pc, sp, fp);
  if (!in_forked_child()) [[likely]]
    stream.commit_next(block, op_size(Op::kFree, 0), 0);
  leave(*thread);
}

void allocation_failed(std::size_t size, const EntryRegisters& entry) noexcept {
  // This is an inner call, which the real allocator made through a hook. Whether the outer call failed is reported by
  // the outer hook.
  if (t_local.allocator_depth != 0) return;
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (!paused()) {
    const std::uint32_t node = capture(*thread, entry);
    append(*thread, Op::kAllocFailed, time_of_other_event(*thread), nullptr, size, node);
  }
  leave(*thread);
}

// ---- reallocations ---------------------------------------------------------------------------------

bool realloc_begin(const void* old_block, const EntryRegisters& entry) noexcept {
  if (t_local.allocator_depth != 0) [[unlikely]] {
    // The real reallocarray calls the hook of realloc. The outer hook records begin and end.
    if (t_local.reallocating == old_block) return false;
    forget_inner_block(old_block);
  }
  notice_free(old_block);
  ThreadState* thread = enter();
  if (thread == nullptr) return false;
  if (unwind::is_loader(entry.pc)) [[unlikely]]
    loader_event();
  append(*thread, Op::kReallocBegin, time_of_block_event(*thread, old_block, PageEvent::kFree), old_block, 0, 0);
  t_local.reallocating = old_block;
  leave(*thread);
  return true;
}

void realloc_end(const void* old_block, const void* new_block, std::size_t size, const EntryRegisters& entry,
                 const AllocatorCall& call) noexcept {
  t_local.reallocating = nullptr;
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (new_block == nullptr && size != 0) {
    // Recorded also in a pause, but then not as a failed allocation: the size 0 says so.
    const bool counts = !paused();
    const std::uint32_t node = counts ? capture(*thread, entry) : 0;
    // The old block is live again, so this event belongs to its address. It may be large.
    append(*thread, Op::kReallocFailed, time_of_block_event(*thread, old_block, PageEvent::kLargeAllocation), nullptr,
           counts ? size : 0, node);
  } else if (new_block == nullptr || paused() || call.recorded(new_block)) {
    append(*thread, Op::kReallocEnd, time_of_other_event(*thread), nullptr, 0, 0);
  } else {
    const std::uint32_t node = capture(*thread, entry);
    append(*thread, Op::kReallocEnd, time_of_block_event(*thread, new_block, allocation_of(size)), new_block, size,
           node);
    note_inner_block(new_block);
  }
  leave(*thread);
}

}  // namespace heapprof::recorder
