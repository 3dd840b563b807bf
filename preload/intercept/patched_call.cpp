#include "preload/intercept/patched_call.h"

#include <new>

#include "preload/recorder/lifecycle.h"
#include "preload/recorder/thread/thread_state.h"

namespace heapprof::intercept {

namespace {

using arch::CallFrame;
using recorder::InterceptedCall;
using recorder::t_local;
using recorder::ThreadState;

/// The calling thread's state, for the calls it is in; null: nothing can be recorded.
ThreadState* thread_state() noexcept {
  if (t_local.state != nullptr && t_local.state->generation == recorder::g_process_generation) [[likely]]
    return t_local.state;
  return recorder::state() == recorder::State::kOn ? recorder::attach_thread() : nullptr;
}

/// Marks that an exception or a longjmp left behind lie below this frame. Those of an alternate stack may too: their
/// owners restore what they changed when they return.
void drop_stale(ThreadState& thread, const CallFrame& frame) noexcept {
  while (thread.intercepted != 0) {
    const InterceptedCall& call = thread.calls[thread.intercepted - 1];
    if (call.frame > &frame) return;
    t_local.reallocating = call.outer_reallocating;
    t_local.allocator_depth = call.outer_depth;
    --thread.intercepted;
  }
}

bool is_inner(const CallFrame& frame, const Target& outer) noexcept {
  return frame.return_address == reinterpret_cast<std::uint64_t>(heapprof_intercept_returned) ||
         frame.return_address - outer.begin - 1 < outer.end - outer.begin;
}

/// A signal handler that comes while a place is being filled takes the same one, and leaves it as it found it. Where
/// there is no frame, nobody was about to fill it.
void push(ThreadState& thread, CallFrame& frame) noexcept {
  frame.index = thread.intercepted;
  if (frame.index == recorder::kMaxInterceptedCalls) return;
  InterceptedCall& place = thread.calls[frame.index];
  frame.interrupted.frame = place.frame;
  if (place.frame != nullptr) [[unlikely]] frame.interrupted = place;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  place.frame = &frame;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  place = {&frame, frame.target, frame.outer_reallocating, frame.outer_depth};
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  thread.intercepted = frame.index + 1;
}

void pop(const CallFrame& frame) noexcept {
  if (ThreadState* const thread = t_local.state) {
    thread->intercepted = frame.index;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (frame.index != recorder::kMaxInterceptedCalls) [[likely]] {
      InterceptedCall& place = thread->calls[frame.index];
      if (frame.interrupted.frame == nullptr) [[likely]] place.frame = nullptr;
      else place = frame.interrupted;
    }
  }
  t_local.allocator_depth = frame.outer_depth;
}

/// The outer call's block, unless it is `block`, which has been given up or given out since.
void return_to_outer(const CallFrame& frame, const void* block) noexcept {
  t_local.reallocating = frame.outer_reallocating == block ? nullptr : frame.outer_reallocating;
}

std::uint64_t size_of_copy(const CallFrame& frame, const Signature& signature) noexcept {
  const auto* text = reinterpret_cast<const char*>(frame.argument(signature.pointer));
  const std::uint64_t most = signature.size == kNoArgument ? UINT64_MAX : frame.argument(signature.size);
  std::uint64_t length = 0;
  while (length != most && text[length] != '\0') ++length;
  return length + 1;
}

std::uint64_t size_of(const CallFrame& frame, const Signature& signature) noexcept {
  if (signature.kind == Kind::kCopy) return size_of_copy(frame, signature);
  const std::uint64_t size = frame.argument(signature.size);
  if (signature.count == kNoArgument) return size;
  std::uint64_t total;
  return __builtin_mul_overflow(size, frame.argument(signature.count), &total) ? SIZE_MAX : total;
}

}  // namespace

}  // namespace heapprof::intercept

using namespace heapprof;
using intercept::Kind;

namespace heapprof::intercept {

namespace {

/// What both of a call's beginnings see to first. False: nobody is to be told of it.
bool is_own_call(ThreadState& thread, CallFrame& frame) noexcept {
  drop_stale(thread, frame);
  const Target& target = *frame.target;
  if (target.behind && (t_local.allocator_depth != 0 ||
                        frame.return_address - target.silent_begin < target.silent_end - target.silent_begin))
    return false;
  if (thread.intercepted == 0) return true;
  const auto& outer = *static_cast<const Target*>(thread.calls[thread.intercepted - 1].target);
  // A function that may throw may do so because an inner one failed, which is then the only one to tell.
  return !is_inner(frame, outer) || (outer.signature.throws && target.signature.kind != Kind::kRelease);
}

/// What the thread was about, for the end of the call.
void keep_outer(CallFrame& frame) noexcept {
  frame.outer_reallocating = t_local.reallocating;
  frame.outer_depth = t_local.allocator_depth;
  frame.begun = 0;
  frame.block = nullptr;
}

bool gives_up_a_block(Kind kind) noexcept {
  return kind != Kind::kAllocate && kind != Kind::kStore && kind != Kind::kCopy;
}

/// The call allocates, and is under way.
void begin_allocation(ThreadState& thread, CallFrame& frame) noexcept {
  const Signature& signature = frame.target->signature;
  frame.size = size_of(frame, signature);
  // The pointer that the block will be stored through is clobbered by then.
  if (signature.kind == Kind::kStore) frame.block = reinterpret_cast<const void*>(frame.argument(signature.pointer));
  push(thread, frame);
  new (&frame.call) recorder::AllocatorCall;
}

}  // namespace

}  // namespace heapprof::intercept

heapprof::intercept::Begin heapprof_intercept_begin(arch::CallFrame* frame) noexcept {
  using intercept::Begin;
  const intercept::Target& target = *frame->target;
  const Kind kind = target.signature.kind;
  frame->original = target.original;
  if (recorder::state() == recorder::State::kOff) return Begin::kReplace;
  recorder::ThreadState* const thread = recorder::t_local.state;
  if (thread == nullptr || thread->generation != recorder::g_process_generation) return Begin::kRecord;
  if (intercept::gives_up_a_block(kind)) {
    if (frame->argument(target.signature.pointer) != 0) return Begin::kRecord;
    if (kind == Kind::kRelease) return Begin::kReplace;
  }
  if (kind == Kind::kCopy && frame->argument(target.signature.pointer) == 0) return Begin::kReplace;
  if (!intercept::is_own_call(*thread, *frame)) return Begin::kReplace;
  intercept::keep_outer(*frame);
  intercept::begin_allocation(*thread, *frame);
  return Begin::kCall;
}

heapprof::intercept::Begin heapprof_intercept_begin_recorded(arch::CallFrame* frame) noexcept {
  using intercept::Begin;
  const intercept::Signature& signature = frame->target->signature;
  recorder::ThreadState* const thread = intercept::thread_state();
  if (signature.kind == Kind::kCopy && frame->argument(signature.pointer) == 0) return Begin::kReplace;
  if (thread == nullptr || !intercept::is_own_call(*thread, *frame)) return Begin::kReplace;
  intercept::keep_outer(*frame);
  if (intercept::gives_up_a_block(signature.kind)) {
    frame->block = reinterpret_cast<const void*>(frame->argument(signature.pointer));
    if (frame->block == nullptr && signature.kind == Kind::kRelease) return Begin::kReplace;
  }
  if (signature.kind == Kind::kRelease) {
    recorder::freed(frame->block, frame->entry());
    ++recorder::t_local.allocator_depth;
    recorder::t_local.reallocating = frame->block;
    intercept::push(*thread, *frame);
    return Begin::kCall;
  }
  if (frame->block != nullptr) frame->begun = recorder::realloc_begin(frame->block, frame->entry());
  intercept::begin_allocation(*thread, *frame);
  return Begin::kCall;
}

bool heapprof_intercept_end(arch::CallFrame* frame) noexcept {
  if (frame->target->signature.kind != Kind::kRelease) return true;
  intercept::pop(*frame);
  intercept::return_to_outer(*frame, frame->block);
  return false;
}

void heapprof_intercept_end_recorded(arch::CallFrame* frame) noexcept {
  const intercept::Signature& signature = frame->target->signature;
  const arch::EntryRegisters entry = frame->entry();
  const void* block = reinterpret_cast<const void*>(frame->result());
  intercept::pop(*frame);
  switch (signature.kind) {
    case Kind::kRelease: return;  // heapprof_intercept_end
    case Kind::kStore:
      block = static_cast<std::int32_t>(frame->result()) == 0 ? *static_cast<void* const*>(frame->block) : nullptr;
      break;
    case Kind::kAllocate:
    case Kind::kCopy: break;
    case Kind::kResize: {
      // In place: the block has the size asked for, or kept its own.
      const bool resized = frame->result() >= frame->size;
      if (frame->begun != 0 && (resized || frame->size != 0))
        recorder::realloc_end(frame->block, resized ? frame->block : nullptr, frame->size, entry, frame->call);
      intercept::return_to_outer(*frame, frame->block);
      return;
    }
    case Kind::kReallocate:
    case Kind::kReallocateOrFree:
      if (frame->block == nullptr) break;
      if (frame->begun == 0) return;
      if (block == nullptr && signature.kind == Kind::kReallocateOrFree) {
        recorder::realloc_end(frame->block, nullptr, 0, entry, frame->call);
        recorder::allocation_failed(frame->size, entry);
      } else {
        recorder::realloc_end(frame->block, block, frame->size, entry, frame->call);
      }
      intercept::return_to_outer(*frame, block);
      return;
  }
  if (block != nullptr) recorder::allocated(block, frame->size, entry, frame->call);
  else recorder::allocation_failed(frame->size, entry);
}
