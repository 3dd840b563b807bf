// Threads whose first events come at once, at the start of the recorder or in a forked child: none is taken for the
// only one, and none attaches before there is a trace. Other threads run at every instruction of one.
#include <csetjmp>
#include <initializer_list>

#include "preload/recorder/event_path.h"
#include "preload/recorder/process/fast_path_mode.h"
#include "preload/recorder/process/fork_watch.h"
#include "tests/support/single_step.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

/// libc's variable. It stays nonzero if the program has created its threads by clone().
char g_one_thread = 1;

bool all_modes_are(const char* mode) {
  return g_single_threaded == mode && g_allocation_mode == mode && g_free_mode == mode;
}

}  // namespace

TEST_CASE("What libc says of threads counts for the first thread that attaches, and not after a second one") {
  forget_attached_threads();
  CHECK_FALSE(is_single_threaded());
  note_attaching_thread(&g_one_thread);
  CHECK(all_modes_are(&g_one_thread));
  note_attaching_thread(&g_one_thread);
  CHECK(all_modes_are(&kMultiThreaded));
  CHECK(forget_attached_threads());
  CHECK(all_modes_are(&kNoThread));
  CHECK_FALSE(forget_attached_threads());
  // A libc that has no variable.
  note_attaching_thread(nullptr);
  CHECK(all_modes_are(&kMultiThreaded));
  forget_attached_threads();
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

using Attach = void (*)(const char* libc_variable);

bool g_has_attached;  ///< for the variant that is wrong

/// The variant that is wrong: looks first whether another thread has attached, and sets what follows from that.
void look_then_set(const char* libc_variable) {
  const char* const mode = g_has_attached ? &kMultiThreaded : libc_variable;
  g_has_attached = true;
  for (const char** const each : {&g_single_threaded, &g_allocation_mode, &g_free_mode})
    __atomic_store_n(each, mode, __ATOMIC_RELAXED);
}

Attach g_attach;
unsigned g_others;

void attach_others() {
  for (unsigned i = 0; i != g_others; ++i) g_attach(&g_one_thread);
}

/// The number of instructions at which `others` threads attach during the call of another one, so that not all modes
/// are those of several threads afterwards.
unsigned errors_at_every_instruction(Attach attach, unsigned others) {
  g_attach = attach;
  g_others = others;
  static InstructionStop stop;
  stop.forget_path();
  unsigned errors = 0, stops = 0;
  for (unsigned step = 1;; step += stop.missed() ? 0 : 1) {
    forget_attached_threads();
    g_has_attached = false;
    const bool reached = interrupt_after(
        stop, step, [attach] { attach(&g_one_thread); }, attach_others);
    if (!reached) {
      if (stop.missed()) continue;
      CHECK(stops > 10);
      forget_attached_threads();
      return errors;
    }
    ++stops;
    errors += all_modes_are(&kMultiThreaded) ? 0 : 1;
  }
}

}  // namespace

TEST_CASE("Threads that attach at once count as several, whatever their order") {
  for (const unsigned others : {1u, 2u}) {
    CHECK(errors_at_every_instruction(note_attaching_thread, others) == 0);
    CHECK(errors_at_every_instruction(look_then_set, others) > 0);
  }
}

namespace {

/// Another thread attaches; here it has the same thread-local data.
void attach_another() {
  ThreadState* const interrupted = t_local.state;
  t_local.state = nullptr;
  attach_thread();
  t_local.state = interrupted;
}

}  // namespace

TEST_CASE("A thread that attaches while another one does is not taken for the only one") {
  const ThreadFixture recording(4096);
  static InstructionStop stop;
  stop.forget_path();
  unsigned stops = 0;
  // Most of these instructions prepare the stream, between a look at the other threads and the state's appearance
  // among theirs.
  for (unsigned step = 1;; step += stop.missed() ? 0 : 40) {
    forget_threads();
    t_local.state = nullptr;
    const bool reached = interrupt_after(
        stop, step, [] { attach_thread(); }, attach_another);
    if (!reached && !stop.missed()) break;
    if (!reached) continue;
    ++stops;
    INFO("interrupted after " << step << " instructions");
    REQUIRE(all_modes_are(&kMultiThreaded));
  }
  CHECK(stops > 10);
}

namespace {

sigjmp_buf g_before_call;
volatile bool g_in_call = false;
void leave_call() {
  if (g_in_call) siglongjmp(g_before_call, 1);
}

}  // namespace

TEST_CASE("If a signal handler leaves by longjmp while a second thread is noted, the next event notes it") {
  static InstructionStop stop;
  stop.forget_path();
  unsigned stops = 0;
  for (unsigned step = 1;; step += stop.missed() ? 0 : 1) {
    forget_attached_threads();
    note_attaching_thread(&g_one_thread);
    const bool reached = interrupt_after(
        stop, step,
        [] {
          if (sigsetjmp(g_before_call, 1) == 0) {
            g_in_call = true;
            set_multi_threaded();
          }
          g_in_call = false;
        },
        leave_call);
    note_multi_threaded();
    INFO("left after " << step << " instructions");
    REQUIRE(all_modes_are(&kMultiThreaded));
    if (!reached && !stop.missed()) break;
    stops += reached ? 1 : 0;
  }
  CHECK(stops > 10);
  forget_attached_threads();
}

namespace {

ForkPage g_page_of_parent{0, 0};  ///< as the kernel has zeroed it in the child
ForkPage g_page_of_child{1, 0};
volatile bool g_has_begun;

/// What the thread of a forked child does that has the first event there.
void begin_trace_of_child() {
  if (!change_state(State::kOn, State::kStarting)) return;
  g_has_begun = true;
  g_fork_page = &g_page_of_child;
}

}  // namespace

TEST_CASE("A thread of a forked child does not attach while another one opens the child's trace") {
  const ThreadFixture recording(4096);
  g_settings.children = false;
  const State state_before = g_state;
  ForkPage* const page_before = g_fork_page;
  static InstructionStop stop;
  stop.forget_path();
  unsigned stops = 0;
  for (unsigned step = 1;; step += stop.missed() ? 0 : 1) {
    g_state = State::kOn;
    g_fork_page = &g_page_of_parent;
    t_local.state = nullptr;
    g_has_begun = false;
    const ThreadState* entered = nullptr;
    interrupt_after(
        stop, step, [&] { entered = enter_slow(arch::stack_pointer()); }, begin_trace_of_child);
    INFO("begun after " << step << " instructions");
    REQUIRE(entered == nullptr);
    // From this instruction on, the interrupted thread is the one that begins.
    if (!g_has_begun && !stop.missed()) break;
    ++stops;
  }
  CHECK(stops > 10);
  g_state = state_before;
  g_fork_page = page_before;
}
#endif
