#include "preload/recorder/thread/thread_state.h"

#include "preload/base/text.h"
#include "preload/python/interpreter.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/page_owners.h"
#include "preload/recorder/process/fast_path_mode.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/trace/recording.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/stack_bounds.h"

extern "C" {
// glibc 2.32 and later: nonzero while the process has never had a second thread. Weak, because older versions lack
// it.
[[gnu::weak]] extern char __libc_single_threaded;
// The function that pthread_atfork calls in glibc since 2.3.2. With a null library, handlers are never unregistered.
[[gnu::weak]] int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* library);
// musl's function of that purpose. It allocates by functions of its own (since 1.2.2).
[[gnu::weak]] int pthread_atfork(void (*prepare)(), void (*parent)(), void (*child)());
// The linker's names for the library's own first and last byte.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace heapprof::recorder {

thread_local constinit ThreadLocal t_local [[gnu::tls_model("initial-exec")]]{};
constinit std::uint32_t g_process_generation = 1;

namespace {

constinit ThreadState* g_states = nullptr;
constinit ThreadState* g_cursor = nullptr;  ///< where the next search for a dead thread's state begins
constinit std::uint32_t g_last_stream = 0;
constinit std::uint32_t g_own_states = 0;  ///< states that are not nested
constinit int g_process = 0;  ///< the process that does not share its t_local with a parent (vfork); 0: not known yet
/// The state that was last used by a child that shares our memory (attach_shared_memory_child).
constinit ThreadState* g_shared_memory_state = nullptr;

/// The number of states that one search for the state of a dead thread examines. It limits the cost of a new thread
/// when all owners are alive. If there are many more states than threads, the search goes on: else the states of many
/// threads that live long would hide those of dead ones, whose number would grow without a limit.
constexpr std::uint32_t kMaxSearched = 16;
constexpr std::uint32_t kMaxNestedStates = 4;
constexpr std::uint64_t kNameIntervalNs = 10'000'000;

constexpr std::uint64_t claim_after(std::uint64_t claim, int thread) noexcept {
  return ((claim >> 32) + 1) << 32 | static_cast<std::uint32_t>(thread);
}

/// Recovers the state of a dead thread, which may have died inside the recorder, in the event of a signal handler, or
/// in a call of a patched function, whose frame is gone.
void recover_from_dead(ThreadState& state) noexcept {
  state.intercepted = 0;
  for (InterceptedCall& call : state.calls) call.frame = nullptr;
  for (ThreadState* each = &state; each != nullptr; each = each->nested) {
    if (each->busy == StackPointer::kNone) continue;
    recover_abandoned_state(*each);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    each->busy = StackPointer::kNone;
  }
}

/// Whether more than a fifth of the states belong to dead threads.
bool has_many_dead_states() noexcept {
  const std::uint32_t threads = sys::thread_count();
  return threads != 0 && __atomic_load_n(&g_own_states, __ATOMIC_RELAXED) > threads + threads / 4 + kMaxSearched;
}

ThreadState* take_dead_state(int thread) noexcept {
  ThreadState* state = __atomic_load_n(&g_cursor, __ATOMIC_ACQUIRE);
  std::uint32_t searched = kMaxSearched;
  for (std::uint32_t i = 0;; ++i) {
    if (i == searched) {
      if (i != kMaxSearched || !has_many_dead_states()) return nullptr;
      searched = __atomic_load_n(&g_last_stream, __ATOMIC_RELAXED);  // all, with the nested ones
      if (i >= searched) return nullptr;
    }
    if (state == nullptr && (state = __atomic_load_n(&g_states, __ATOMIC_ACQUIRE)) == nullptr) return nullptr;
    ThreadState* const candidate = state;
    state = state->next;
    __atomic_store_n(&g_cursor, state, __ATOMIC_RELEASE);
    std::uint64_t claim = __atomic_load_n(&candidate->claim, __ATOMIC_ACQUIRE);
    const int owner = static_cast<int>(claim);
    // An owner with the caller's thread id is a dead thread whose id the kernel has reused; or it is the caller
    // itself, a child that shares our memory. In the second case the caller may be inside the recorder.
    if (candidate->depth != 0) continue;
    if (owner == thread ? candidate->busy != StackPointer::kNone : sys::thread_exists(owner)) continue;
    if (__atomic_compare_exchange_n(&candidate->claim, &claim, claim_after(claim, thread), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      recover_from_dead(*candidate);
      return candidate;
    }
  }
}

// The functions of unwind::Definitions, by which a capture writes to the thread's stream.

NodeId intern_frame(void* context, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags) {
  return g_call_tree.intern(parent, module, offset, flags & ~unwind::kSignalNode,
                            static_cast<ThreadState*>(context)->stream);
}

NodeId intern_native_frame(void* context, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags) {
  auto& thread = *static_cast<ThreadState*>(context);
  return thread.python.intern_native(parent, module, offset, flags, thread.stream);
}

NodeId intern_omitted_native(void* context, std::uint64_t omitted, bool signal) {
  auto& thread = *static_cast<ThreadState*>(context);
  return thread.python.native_stacks().intern_omitted(omitted, signal, thread.stream);
}

void define_module(void* context, const unwind::ModuleInfo& module) {
  // ModuleText, build id and path make one text. Build ids usually have 20 bytes.
  struct {
    ModuleText text;
    std::uint8_t build_id[64];
  } fixed;
  const std::uint32_t id_bytes =
      module.build_id_bytes < sizeof fixed.build_id ? module.build_id_bytes : sizeof fixed.build_id;
  fixed.text = {module.map_end - module.map_begin, module.load_bias, id_bytes, module.main ? kModuleMain : 0};
  __builtin_memcpy(fixed.build_id, module.build_id, id_bytes);
  Stream& stream = static_cast<ThreadState*>(context)->stream;
  stream.append_text(TextKind::kModule, raw(module.id), module.map_begin, &fixed, sizeof fixed.text + id_bytes,
                     module.path, text_length(module.path));
  python::module_defined(module, stream);
  if (python::is_on()) __atomic_store_n(&g_allocation_mode, &kPythonFrames, __ATOMIC_RELAXED);
}

ThreadState* allocate_state(int thread, std::uint32_t depth) noexcept {
  auto* state = static_cast<ThreadState*>(sys::map_private(sizeof(ThreadState)));
  if (state == nullptr) return stop("no memory for a thread's state"), nullptr;
  state->claim = claim_after(0, thread);
  state->generation = g_process_generation;
  state->depth = depth;
  state->definitions = {state, intern_frame, define_module};
  state->native_definitions = {state, intern_native_frame, define_module, intern_omitted_native};
  if (depth == 0) __atomic_fetch_add(&g_own_states, 1, __ATOMIC_RELAXED);
  const StreamId id{__atomic_add_fetch(&g_last_stream, 1, __ATOMIC_RELAXED)};
  if (static_cast<std::uint32_t>(id) >= kEverybody) return stop("more than 16 million streams"), nullptr;
  if (const char* failure = state->stream.open(g_trace, id, g_settings.block_bytes)) return stop(failure), nullptr;
  state->next = __atomic_load_n(&g_states, __ATOMIC_ACQUIRE);
  while (!__atomic_compare_exchange_n(&g_states, &state->next, state, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return state;
}

/// Writes the owner's record to the trace. Until this is done name_interval is 0, so that announce_if_abandoned() can
/// repeat it if a signal handler leaves by longjmp.
void announce(ThreadState& state, int thread, std::uint64_t owner_kind) noexcept {
  state.name_interval = 0;
  sys::thread_name(state.name);
  state.next_name_check = state.next_check = Ticks{0};
  state.checked_sequence = state.stream.sequence();
  state.stream.append_text(TextKind::kThread, static_cast<std::uint64_t>(thread), owner_kind, state.name,
                           text_length(state.name));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  state.name_interval = 1;
}

/// For a child that shares our memory (vfork, clone with CLONE_VM) while its parent's thread has no state yet. The
/// child must not set t_local.state: it shares that variable with the parent's thread, which would continue with the
/// state of a dead owner after the child has ended. So the child attaches again for each event.
ThreadState* attach_shared_memory_child(int thread) noexcept {
  ThreadState* state = __atomic_load_n(&g_shared_memory_state, __ATOMIC_ACQUIRE);
  if (state != nullptr && state->owner() == thread && state->busy == StackPointer::kNone) return state;
  state = take_dead_state(thread);
  if (state == nullptr) state = allocate_state(thread, 0);
  if (state == nullptr) return nullptr;
  state->stream.end_run();
  state->unwinder.thread_changed();
  state->python.thread_changed();
  announce(*state, thread, kThreadNew);
  __atomic_store_n(&g_shared_memory_state, state, __ATOMIC_RELEASE);
  return state;
}

}  // namespace

ThreadState* attach_thread() noexcept {
  const int thread = sys::thread_id();
  const int process = sys::process_id();
  // Without system calls the caller is unknown; its events are not recorded.
  if (sys::failed(thread) || sys::failed(process)) return nullptr;
  int owner_process = __atomic_load_n(&g_process, __ATOMIC_RELAXED);
  if (owner_process == 0) __atomic_store_n(&g_process, owner_process = process, __ATOMIC_RELAXED);
  note_attaching_thread(&__libc_single_threaded);
  if (process != owner_process) return attach_shared_memory_child(thread);
  ThreadState* state = take_dead_state(thread);
  if (state == nullptr) state = allocate_state(thread, 0);
  if (state == nullptr) return nullptr;
  state->busy = arch::stack_pointer();
  state->last_stack_pointer = to_address(state->busy);
  state->stack_end = unwind::own_stack_end();
  state->stream.end_run();
  state->unwinder.thread_changed();
  state->python.thread_changed();
  state->name_interval = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  t_local.state = state;
  announce(*state, thread, kThreadNew);
  state->busy = StackPointer::kNone;
  return state;
}

bool shares_memory_with_parent() noexcept {
  const int process = __atomic_load_n(&g_process, __ATOMIC_RELAXED);
  return process != 0 && sys::process_id() != process;
}

void wait_until_others_left() noexcept {
  if (in_forked_child()) return;    // the others are the parent's
  constexpr unsigned kSteps = 600;  // of 0.15 ms, with the usual timer slack of 50 us
  unsigned steps = 0;
  const int own = t_local.state == nullptr ? 0 : t_local.state->owner();
  for (const ThreadState* state = first_thread_state(); state != nullptr; state = state->next) {
    if (state->generation != g_process_generation || state->owner() == own) continue;
    const auto event = [&] {
      return __atomic_load_n(&state->busy, __ATOMIC_ACQUIRE) == StackPointer::kNone ? ~std::uint64_t{0}
                                                                                    : state->stream.position();
    };
    for (const std::uint64_t begun = event(); begun != ~std::uint64_t{0} && event() == begun; ++steps) {
      if (steps == kSteps || sys::forbidden()) return;
      const timespec step{0, 100'000};
      sys::call(SYS_nanosleep, sys::word(&step), 0);
    }
  }
}

PrivateBlocks save_private_blocks(const ThreadState& entered, bool executes) noexcept {
  PrivateBlocks left;
  const int self = entered.owner();
  // No signal handler of this thread may have an event, or leave by longjmp, while a block is saved. SIGXFSZ and
  // SIGPIPE are not blocked here, as at the start of the recording (lifecycle.cpp).
  sys::BlockedSignals blocked(sys::kAllButFaults & ~(sys::signal_bit(SIGXFSZ) | sys::signal_bit(SIGPIPE)));
  for (ThreadState* state = __atomic_load_n(&g_states, __ATOMIC_ACQUIRE); state != nullptr; state = state->next) {
    if (state->depth != 0) continue;  // it is saved with the thread's own state
    std::uint64_t claim = __atomic_load_n(&state->claim, __ATOMIC_ACQUIRE);
    const int owner = static_cast<int>(claim);
    // The state of a dead thread is claimed meanwhile, so that no new thread takes it.
    if (owner != self &&
        (sys::thread_exists(owner) || !__atomic_compare_exchange_n(&state->claim, &claim, claim_after(claim, self),
                                                                   false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))) {
      left.of_unfinished_threads = true;
      continue;
    }
    for (ThreadState* each = state; each != nullptr; each = each->nested) {
      if (owner == self && each != &entered && each->busy != StackPointer::kNone) {
        left.of_unfinished_threads = true;
      } else if (const char* const failure = each->stream.save_private_block(owner == self && !executes)) {
        left.failure = failure;
      }
    }
    if (owner != self)
      __atomic_store_n(&state->claim, claim_after(claim_after(claim, self), owner), __ATOMIC_RELEASE);
  }
  blocked.restore(0);
  return left;
}

const ThreadState* first_thread_state() noexcept { return __atomic_load_n(&g_states, __ATOMIC_ACQUIRE); }

void announce_if_abandoned(ThreadState& state) noexcept {
  if (state.name_interval == 0) announce(state, state.owner(), state.depth == 0 ? kThreadNew : kThreadNested);
}

ThreadState* nested_state(ThreadState& outer) noexcept {
  if (outer.nested == nullptr) {
    if (outer.depth == kMaxNestedStates) return nullptr;
    outer.nested = allocate_state(outer.owner(), outer.depth + 1);
    if (outer.nested == nullptr) return nullptr;
  }
  ThreadState& nested = *outer.nested;
  if (nested.claim != outer.claim || nested.name_interval == 0) {
    nested.claim = outer.claim;
    announce(nested, nested.owner(), kThreadNested);
  }
  return &nested;
}

void recover_abandoned_state(ThreadState& state) noexcept {
  state.stream.end_run();  // the clock may have been read for an event that was never written
  state.unwinder.recover_abandoned_capture();
  state.python.thread_changed();
}

bool busy_is_stale(const ThreadState& state, StackPointer stack_pointer) noexcept {
  if (__atomic_load_n(&sys::g_forbidden, __ATOMIC_RELAXED) != 0) return false;
  // The caller's own frame is now at this address, so the frame of the earlier call is gone.
  if (stack_pointer == state.busy) return true;
  if (stack_pointer > state.busy) {
    stack_t alternate{};
    sys::call(SYS_sigaltstack, 0, sys::word(&alternate));
    if ((alternate.ss_flags & SS_ONSTACK) == 0) {
      if (unwind::on_own_stack(to_address(state.busy), to_address(stack_pointer))) return true;
    } else {
      // The alternate stack may be above the interrupted one, so `busy` is only stale if it is on the alternate stack
      // itself.
      const auto begin = reinterpret_cast<std::uint64_t>(alternate.ss_sp);
      if (to_address(state.busy) - begin < alternate.ss_size) return true;
    }
  }
  // While the thread is inside the recorder, the word above `busy` is the return address into the hook. If a later
  // call has overwritten it, or the stack is unmapped, the thread has left.
  const std::uint64_t address = to_address(state.busy) + sizeof(std::uint64_t);
  if (!unwind::probe(address)) return true;
  const std::uint64_t found = arch::strip(*reinterpret_cast<const volatile std::uint64_t*>(address));
  return found < reinterpret_cast<std::uint64_t>(__ehdr_start) || found >= reinterpret_cast<std::uint64_t>(_end);
}

void check_thread_name(ThreadState& state, Ticks now) noexcept {
  if (state.name_interval < kMaxNameInterval) state.name_interval *= 2;
  state.next_name_check = now + g_clock.ticks_in(kNameIntervalNs);
  state.checked_sequence = state.stream.sequence();
  char name[16] = "";
  sys::thread_name(name);
  if (name[0] == '\0' || text_equal(name, state.name)) return;
  __builtin_memcpy(state.name, name, sizeof name);
  state.stream.append_text(TextKind::kThreadName, static_cast<std::uint64_t>(state.owner()), 0, name,
                           text_length(name));
}

bool begin_python_frames(ThreadState& thread) noexcept {
  // The fast path must not find the stacks of this unwinder. Another thread may have found the interpreter, and not
  // have set the mode yet.
  __atomic_store_n(&g_allocation_mode, &kPythonFrames, __ATOMIC_RELAXED);
  // While it is suspended, the unwinder's stacks are nodes of the call tree.
  if (!thread.python.suspended()) thread.unwinder.recover_abandoned_capture();
  return thread.python.begin();
}

namespace {

/// For a child that a signal handler forked, and that will return into an unfinished event. The event may be past its
/// last check of in_forked_child(), so its stores must go to a copy.
void detach_unfinished_events() noexcept {
  for (ThreadState* state = t_local.state; state != nullptr; state = state->nested)
    if (state->busy != StackPointer::kNone && state->generation == g_process_generation)
      state->stream.detach_from_parent();
}

}  // namespace

void detach_at_fork() noexcept {
  if (&__register_atfork != nullptr) __register_atfork(nullptr, nullptr, detach_unfinished_events, nullptr);
  else if (&pthread_atfork != nullptr) pthread_atfork(nullptr, nullptr, detach_unfinished_events);
}

void forget_threads() noexcept {
  g_states = nullptr;
  g_cursor = nullptr;
  g_last_stream = 0;
  g_own_states = 0;
  if (forget_attached_threads()) forget_pages();
  g_process = 0;
  g_shared_memory_state = nullptr;
  ++g_process_generation;
}

}  // namespace heapprof::recorder
