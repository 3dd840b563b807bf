#include "preload/recorder/thread/thread_state.h"

#include "preload/base/text.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/clock_lease.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/trace/trace_storage.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/stack_bounds.h"

extern "C" {
// glibc 2.32 and later: not 0 while the process has never had a second thread. Weak: older ones lack it.
[[gnu::weak]] extern char __libc_single_threaded;
// pthread_atfork's way into glibc, since 2.3.2. With no library, handlers are never taken back.
[[gnu::weak]] int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* library);
// The linker's names for the library's own first and last byte.
[[gnu::visibility("hidden")]] extern const char __ehdr_start[];
[[gnu::visibility("hidden")]] extern const char _end[];
}

namespace heapprof::recorder {

thread_local constinit ThreadLocal t_local [[gnu::tls_model("initial-exec")]]{};
constinit std::uint32_t g_process_generation = 1;
constinit const char kManyThreads = 0;
constinit const char* g_one_thread = &kManyThreads;

namespace {

constinit ThreadState* g_states = nullptr;
constinit ThreadState* g_cursor = nullptr;  ///< where the search for a dead thread's state goes on
constinit std::uint32_t g_last_stream = 0;
constinit int g_process = 0;                     ///< whose thread-local storage is what it seems
constinit ThreadState* g_visitor = nullptr;      ///< the state that a child without a state of its own used last

/// States looked at in search of a dead thread's: bounds what a new thread pays when all live.
constexpr int kSearch = 16;
constexpr std::uint32_t kDeepest = 4;
constexpr std::uint64_t kNameIntervalNs = 10'000'000;

constexpr std::uint64_t claim_after(std::uint64_t claim, int thread) noexcept {
  return ((claim >> 32) + 1) << 32 | static_cast<std::uint32_t>(thread);
}

/// The thread `owner`, which had this state, may have died anywhere: inside the recorder, there in an event of a
/// signal handler's, or in a call of a patched function, whose frame is gone.
void recover_from_dead(ThreadState& state, int owner) noexcept {
  state.intercepted = 0;
  for (InterceptedCall& call : state.calls) call.frame = nullptr;
  for (ThreadState* each = &state; each != nullptr; each = each->nested) {
    if (each->busy == 0) continue;
    recover_abandoned(*each, owner);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    each->busy = 0;
  }
}

ThreadState* take_dead_state(int thread) noexcept {
  ThreadState* state = __atomic_load_n(&g_cursor, __ATOMIC_ACQUIRE);
  for (int i = 0; i < kSearch; ++i) {
    if (state == nullptr && (state = __atomic_load_n(&g_states, __ATOMIC_ACQUIRE)) == nullptr) return nullptr;
    ThreadState* const candidate = state;
    state = state->next;
    __atomic_store_n(&g_cursor, state, __ATOMIC_RELEASE);
    std::uint64_t claim = __atomic_load_n(&candidate->claim, __ATOMIC_ACQUIRE);
    const int owner = static_cast<int>(claim);
    // The kernel gave the caller this number, so an earlier owner of the same number is dead (or is the caller
    // itself, in a child that shares our memory, and then may be inside).
    if (candidate->depth != 0 || (owner == thread ? candidate->busy != 0 : sys::thread_exists(owner))) continue;
    if (__atomic_compare_exchange_n(&candidate->claim, &claim, claim_after(claim, thread), false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      recover_from_dead(*candidate, owner);
      return candidate;
    }
  }
  return nullptr;
}

// How a capture reaches the thread's stream (unwind::Definitions).

NodeId intern_frame(void* context, NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags,
                    std::uint64_t path) {
  return g_call_tree.child(parent, module, offset, flags, path, static_cast<ThreadState*>(context)->stream);
}

void expect_frame(std::uint64_t path) { g_call_tree.expect(path); }

void define_module(void* context, const unwind::ModuleInfo& module) {
  const char* const path = module.main && *program_path() == '/' ? program_path() : module.path;
  // Description, build id and path in one text; build ids are 20 bytes, seldom more.
  struct {
    ModuleText text;
    std::uint8_t build_id[64];
  } fixed;
  const std::uint32_t id_bytes =
      module.build_id_bytes < sizeof fixed.build_id ? module.build_id_bytes : sizeof fixed.build_id;
  fixed.text = {module.map_end - module.map_begin, module.load_bias, id_bytes, module.main ? kModuleMain : 0};
  __builtin_memcpy(fixed.build_id, module.build_id, id_bytes);
  static_cast<ThreadState*>(context)->stream.append_text(TextKind::kModule, raw(module.id), module.map_begin, &fixed,
                                                         sizeof fixed.text + id_bytes, path, text_length(path));
}

ThreadState* make_state(int thread, std::uint32_t depth) noexcept {
  auto* state = static_cast<ThreadState*>(sys::map_private(sizeof(ThreadState)));
  if (state == nullptr) return stop("no memory for a thread's state"), nullptr;
  state->claim = claim_after(0, thread);
  state->generation = g_process_generation;
  state->depth = depth;
  state->definitions = {state, intern_frame, define_module, expect_frame};
  const StreamId id{__atomic_add_fetch(&g_last_stream, 1, __ATOMIC_RELAXED)};
  if (const char* failure = state->stream.open(g_trace_file, id, g_settings.block_bytes))
    return stop(failure), nullptr;
  state->next = __atomic_load_n(&g_states, __ATOMIC_ACQUIRE);
  while (!__atomic_compare_exchange_n(&g_states, &state->next, state, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
  }
  return state;
}

/// name_interval is 0 until it is done: a signal handler may leave by longjmp before.
void announce(ThreadState& state, int thread, std::uint64_t owner_kind) noexcept {
  state.name_interval = 0;
  sys::thread_name(state.name);
  state.name_due = state.look_due = 0;
  state.turn_runs = state.turn_wait = state.turn_last_wait = 0;
  state.seen_sequence = state.stream.sequence();
  state.stream.append_text(TextKind::kThread, static_cast<std::uint64_t>(thread), owner_kind, state.name,
                           text_length(state.name));
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  state.name_interval = 1;
}

}  // namespace

namespace {

/// A child that shares our memory (vfork, clone with CLONE_VM) and came by no state from the thread that it runs on:
/// that had no event yet. It must not leave one there either: the claim would end with the child, in the middle of
/// its parent's life. So it attaches for each event anew.
ThreadState* attach_visitor(int thread) noexcept {
  ThreadState* state = __atomic_load_n(&g_visitor, __ATOMIC_ACQUIRE);
  if (state != nullptr && state->owner() == thread && state->busy == 0) return state;
  state = take_dead_state(thread);
  if (state == nullptr) state = make_state(thread, 0);
  if (state == nullptr) return nullptr;
  state->stream.end_run();
  state->unwinder.thread_changed();
  announce(*state, thread, kThreadNew);
  __atomic_store_n(&g_visitor, state, __ATOMIC_RELEASE);
  return state;
}

}  // namespace

ThreadState* attach_thread() noexcept {
  const int thread = sys::thread_id();
  const int process = sys::process_id();
  // Without system calls there is no telling who the caller is; its events are not recorded.
  if (sys::failed(thread) || sys::failed(process)) return nullptr;
  int home = __atomic_load_n(&g_process, __ATOMIC_RELAXED);
  if (home == 0) __atomic_store_n(&g_process, home = process, __ATOMIC_RELAXED);
  if (__atomic_load_n(&g_states, __ATOMIC_ACQUIRE) != nullptr) {
    many_threads();
  } else if (&__libc_single_threaded != nullptr) {
    __atomic_store_n(&g_one_thread, &__libc_single_threaded, __ATOMIC_RELAXED);
  }
  if (process != home) return attach_visitor(thread);
  ThreadState* state = take_dead_state(thread);
  if (state == nullptr) state = make_state(thread, 0);
  if (state == nullptr) return nullptr;
  state->busy = arch::stack_pointer();
  state->stream.end_run();
  state->unwinder.thread_changed();
  state->name_interval = 0;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  t_local.state = state;
  announce(*state, thread, kThreadNew);
  state->busy = 0;
  return state;
}

void announce_if_left(ThreadState& state) noexcept {
  if (state.name_interval == 0) announce(state, state.owner(), state.depth == 0 ? kThreadNew : kThreadNested);
}

ThreadState* nested_state(ThreadState& outer) noexcept {
  if (outer.nested == nullptr) {
    if (outer.depth == kDeepest) return nullptr;
    outer.nested = make_state(outer.owner(), outer.depth + 1);
    if (outer.nested == nullptr) return nullptr;
  }
  ThreadState& nested = *outer.nested;
  if (nested.claim != outer.claim || nested.name_interval == 0) {
    nested.claim = outer.claim;
    announce(nested, nested.owner(), kThreadNested);
  }
  return &nested;
}

void recover_abandoned(ThreadState& state, int owner) noexcept {
  state.stream.end_run();  // the clock may have been read for an event that was never written
  state.unwinder.capture_left();
  g_call_tree.growth_left(owner);
}

bool busy_is_stale(const ThreadState& state, std::uint64_t stack_pointer) noexcept {
  if (__atomic_load_n(&sys::g_forbidden, __ATOMIC_RELAXED) != 0) return false;
  // This very place belongs to the caller's frame by now.
  if (stack_pointer == state.busy) return true;
  if (stack_pointer > state.busy) {
    stack_t alternate{};
    sys::call(SYS_sigaltstack, 0, sys::word(&alternate));
    if ((alternate.ss_flags & SS_ONSTACK) == 0) {
      if (unwind::on_own_stack(state.busy, stack_pointer)) return true;
    } else {
      // A handler on the alternate stack is above anything on a stack that lies lower: only a mark from the
      // alternate stack itself can be stale.
      const auto begin = reinterpret_cast<std::uint64_t>(alternate.ss_sp);
      if (state.busy >= begin && state.busy < begin + alternate.ss_size) return true;
    }
  }
  // As long as somebody is inside, the word above the mark is the return address into the hook that called. Where a
  // deeper call of later has put something else there, nobody is. (The stack may be gone altogether.)
  const std::uint64_t place = state.busy + sizeof(std::uint64_t);
  if (!unwind::probe(place)) return true;
  const std::uint64_t found = arch::strip(*reinterpret_cast<const volatile std::uint64_t*>(place));
  return found < reinterpret_cast<std::uint64_t>(__ehdr_start) || found >= reinterpret_cast<std::uint64_t>(_end);
}

void check_thread_name(ThreadState& state, std::uint64_t now) noexcept {
  if (state.name_interval < kLastNameInterval) state.name_interval *= 2;
  state.name_due = now + g_clock.ticks_in(kNameIntervalNs);
  state.seen_sequence = state.stream.sequence();
  char name[16] = "";
  sys::thread_name(name);
  if (name[0] == '\0' || text_equal(name, state.name)) return;
  __builtin_memcpy(state.name, name, sizeof name);
  state.stream.append_text(TextKind::kThreadName, static_cast<std::uint64_t>(state.owner()), 0, name,
                           text_length(name));
}

void many_threads() noexcept { __atomic_store_n(&g_one_thread, &kManyThreads, __ATOMIC_RELAXED); }

namespace {

/// Handlers that fork, and whose child comes back: it may be between the question whether this is a child and the
/// stores of an event, and nothing there can ask once more.
void returns_in_child() noexcept {
  for (ThreadState* state = t_local.state; state != nullptr; state = state->nested)
    if (state->busy != 0 && state->generation == g_process_generation) state->stream.part_from_parent();
}

}  // namespace

void part_at_fork() noexcept {
  if (&__register_atfork != nullptr) __register_atfork(nullptr, nullptr, returns_in_child, nullptr);
}

void forget_threads() noexcept {
  g_states = nullptr;
  g_cursor = nullptr;
  g_last_stream = 0;
  g_one_thread = &kManyThreads;
  g_process = 0;
  g_visitor = nullptr;
  g_turn[0] = 0;
  ++g_process_generation;
}

}  // namespace heapprof::recorder
