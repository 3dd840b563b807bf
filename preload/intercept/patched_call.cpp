#include "preload/intercept/patched_call.h"

#include <cerrno>
#include <new>

#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::intercept {

namespace {

using recorder::InterceptedCall;
using recorder::t_local;
using recorder::ThreadState;

/// The calling thread's state; null: nothing can be recorded.
ThreadState* thread_state() noexcept {
  if (t_local.state != nullptr && t_local.state->generation == recorder::g_process_generation) [[likely]]
    return t_local.state;
  // Without a state there is no unfinished event, which forked() must not interrupt.
  if (recorder::state() == recorder::State::kOn && recorder::in_forked_child()) recorder::forked();
  return recorder::state() == recorder::State::kOn ? recorder::attach_thread() : nullptr;
}

/// Removes calls that an exception or a longjmp abandoned: their frames are below this one. Calls on an alternate
/// signal stack may be below it too, and are then removed; they restore what they changed when they return.
void remove_abandoned_calls(ThreadState& thread, const CallFrame& frame) noexcept {
  while (thread.intercepted != 0) {
    const InterceptedCall& call = thread.calls[thread.intercepted - 1];
    if (call.frame > &frame) return;
    t_local.reallocating = call.outer_reallocating;
    t_local.allocator_depth = call.outer_depth;
    --thread.intercepted;
  }
}

/// Whether the call is part of `outer`: its code called, or jumped; after a jump, the return address is in the
/// trampoline.
bool is_part_of(const PatchedFunction& outer, const CallFrame& frame) noexcept {
  return frame.return_address == reinterpret_cast<std::uint64_t>(heapprof_intercept_returned) ||
         frame.return_address - outer.begin - 1 < outer.end - outer.begin;
}

/// Adds the call to the thread's list. A signal handler that interrupts this uses the same entry, and restores it.
/// The entry's frame is null unless another call was interrupted while it filled the entry.
void enter_call(ThreadState& thread, CallFrame& frame) noexcept {
  frame.index = thread.intercepted;
  if (frame.index == recorder::kMaxInterceptedCalls) return;
  InterceptedCall& entry = thread.calls[frame.index];
  frame.interrupted.frame = entry.frame;
  if (entry.frame != nullptr) [[unlikely]]
    frame.interrupted = entry;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  entry.frame = &frame;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  entry = {&frame, frame.function, frame.outer_reallocating, frame.outer_depth};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread.intercepted = frame.index + 1;
}

void leave_call(const CallFrame& frame) noexcept {
  if (ThreadState* const thread = t_local.state) {
    thread->intercepted = frame.index;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (frame.index != recorder::kMaxInterceptedCalls) [[likely]] {
      InterceptedCall& entry = thread->calls[frame.index];
      if (frame.interrupted.frame == nullptr) [[likely]]
        entry.frame = nullptr;
      else entry = frame.interrupted;
    }
  }
  t_local.allocator_depth = frame.outer_depth;
}

/// Restores the block that the outer call reallocates, unless it is `block`, which has been freed or allocated since.
void restore_reallocating(const CallFrame& frame, const void* block) noexcept {
  t_local.reallocating = frame.outer_reallocating == block ? nullptr : frame.outer_reallocating;
}

std::uint64_t size_of_copy(const CallFrame& frame, const Signature& signature) noexcept {
  const auto* text = reinterpret_cast<const char*>(frame.argument(signature.pointer));
  const std::uint64_t max_length = signature.size == kNoArgument ? UINT64_MAX : frame.argument(signature.size);
  std::uint64_t length = 0;
  while (length != max_length && text[length] != '\0') ++length;
  return length + 1;
}

std::uint64_t requested_size(const CallFrame& frame, const Signature& signature) noexcept {
  if (signature.kind == Kind::kDuplicateString) return size_of_copy(frame, signature);
  const std::uint64_t size = frame.argument(signature.size);
  if (signature.count == kNoArgument) return size;
  std::uint64_t total;
  return __builtin_mul_overflow(size, frame.argument(signature.count), &total) ? SIZE_MAX : total;
}

/// See PatchedFunction::unrecorded_callers_begin.
bool is_unrecorded_caller(const PatchedFunction& function, std::uint64_t return_address) noexcept {
  return return_address - function.unrecorded_callers_begin <
         function.unrecorded_callers_end - function.unrecorded_callers_begin;
}

/// Whether the call is recorded. A call that is part of a recorded outer call is not.
bool is_recorded(ThreadState& thread, CallFrame& frame) noexcept {
  remove_abandoned_calls(thread, frame);
  const PatchedFunction& function = *frame.function;
  if (function.is_real_function &&
      (t_local.allocator_depth != 0 || is_unrecorded_caller(function, frame.return_address)))
    return false;
  if (thread.intercepted == 0) return true;
  const auto& outer = *static_cast<const PatchedFunction*>(thread.calls[thread.intercepted - 1].target);
  // Calls inside a function that may throw are recorded: when it throws, it does not return to the trampoline.
  return !is_part_of(outer, frame) || (outer.signature.throws && function.signature.kind != Kind::kFree);
}

/// Saves the thread's values that leave_call() and restore_reallocating() restore.
void save_outer(CallFrame& frame) noexcept {
  frame.outer_reallocating = t_local.reallocating;
  frame.outer_depth = t_local.allocator_depth;
  frame.realloc_begun = 0;
  frame.block = nullptr;
}

bool takes_a_block(Kind kind) noexcept {
  return kind != Kind::kAllocate && kind != Kind::kAllocateThroughPointer && kind != Kind::kDuplicateString;
}

void begin_allocation(ThreadState& thread, CallFrame& frame) noexcept {
  const Signature& signature = frame.function->signature;
  frame.size = requested_size(frame, signature);
  // Saved now: the function may overwrite the arguments' registers.
  if (signature.alignment != kNoArgument) frame.alignment = frame.argument(signature.alignment);
  if (signature.kind == Kind::kAllocateThroughPointer)
    frame.block = reinterpret_cast<const void*>(frame.argument(signature.pointer));
  enter_call(thread, frame);
  new (&frame.call) recorder::AllocatorCall;
}

}  // namespace

}  // namespace heapprof::intercept

using namespace heapprof;
using namespace heapprof::intercept;

Action heapprof_intercept_begin(CallFrame* frame) noexcept {
  const PatchedFunction& function = *frame->function;
  const Kind kind = function.signature.kind;
  frame->original = function.original;
  if (recorder::state() == recorder::State::kOff) return Action::kJump;
  recorder::ThreadState* const thread = recorder::t_local.state;
  if (thread == nullptr || thread->generation != recorder::g_process_generation) return Action::kBeginRecord;
  if (takes_a_block(kind)) {
    if (frame->argument(function.signature.pointer) != 0) return Action::kBeginRecord;
    if (kind == Kind::kFree) return Action::kJump;
  }
  if (kind == Kind::kDuplicateString && frame->argument(function.signature.pointer) == 0) return Action::kJump;
  if (!is_recorded(*thread, *frame)) return Action::kJump;
  save_outer(*frame);
  begin_allocation(*thread, *frame);
  return Action::kCall;
}

Action heapprof_intercept_begin_recorded(CallFrame* frame) noexcept {
  const Signature& signature = frame->function->signature;
  recorder::ThreadState* const thread = thread_state();
  if (signature.kind == Kind::kDuplicateString && frame->argument(signature.pointer) == 0) return Action::kJump;
  if (thread == nullptr || !is_recorded(*thread, *frame)) return Action::kJump;
  save_outer(*frame);
  if (takes_a_block(signature.kind)) {
    frame->block = reinterpret_cast<const void*>(frame->argument(signature.pointer));
    if (frame->block == nullptr && signature.kind == Kind::kFree) return Action::kJump;
  }
  if (signature.kind == Kind::kFree) {
    recorder::freed(frame->block, frame->entry());
    ++recorder::t_local.allocator_depth;
    recorder::t_local.reallocating = frame->block;
    enter_call(*thread, *frame);
    return Action::kCall;
  }
  if (frame->block != nullptr) frame->realloc_begun = recorder::realloc_begin(frame->block, frame->entry());
  begin_allocation(*thread, *frame);
  return Action::kCall;
}

bool heapprof_intercept_end(CallFrame* frame) noexcept {
  if (frame->function->signature.kind != Kind::kFree) return true;
  leave_call(*frame);
  restore_reallocating(*frame, frame->block);
  return false;
}

void heapprof_intercept_end_recorded(CallFrame* frame) noexcept {
  const Signature& signature = frame->function->signature;
  const arch::EntryRegisters entry = frame->entry();
  const void* block = reinterpret_cast<const void*>(frame->result());
  leave_call(*frame);
  switch (signature.kind) {
    case Kind::kFree: return;  // recorded before the call
    case Kind::kAllocateThroughPointer:
      // EINVAL: the alignment is invalid, so no memory was requested.
      if (static_cast<std::int32_t>(frame->result()) == EINVAL) return;
      block = static_cast<std::int32_t>(frame->result()) == 0 ? *static_cast<void* const*>(frame->block) : nullptr;
      break;
    case Kind::kAllocate:
      if (block == nullptr && signature.alignment != kNoArgument &&
          may_be_refused(frame->alignment, frame->function->zero_alignment))
        return;
      break;
    case Kind::kDuplicateString: break;
    case Kind::kResizeInPlace: {
      // The result is the block's size now: the requested one, or the old one.
      const bool resized = frame->result() >= frame->size;
      if (frame->realloc_begun != 0 && (resized || frame->size != 0))
        recorder::realloc_end(frame->block, resized ? frame->block : nullptr, frame->size, entry, frame->call);
      restore_reallocating(*frame, frame->block);
      return;
    }
    case Kind::kReallocate:
    case Kind::kReallocateOrFree:
      if (frame->block == nullptr) break;
      if (frame->realloc_begun == 0) return;
      if (block == nullptr && signature.kind == Kind::kReallocateOrFree) {
        recorder::realloc_end(frame->block, nullptr, 0, entry, frame->call);
        recorder::allocation_failed(frame->size, entry);
      } else {
        recorder::realloc_end(frame->block, block, frame->size, entry, frame->call);
      }
      restore_reallocating(*frame, block);
      return;
  }
  if (block != nullptr) recorder::allocated(block, frame->size, entry, frame->call);
  else recorder::allocation_failed(frame->size, entry);
}
