// Who need not read the clock: how the turn is taken, lost and waited for, and that no event of a thread without it
// is later than what that thread looked at.
#include "preload/recorder/clock/clock_lease.h"

#include "preload/recorder/recorder.h"
#include "tests/unit/recorder/recording.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

ThreadState g_first, g_second;

/// Nobody has the turn, and nobody has had it.
void begin_anew() {
  g_first = ThreadState{};
  g_second = ThreadState{};
  g_turn[0] = 0;
}

/// Ends of runs until `thread` tries for the turn, and has it.
unsigned runs_until_turn(ThreadState& thread) {
  unsigned runs = 1;
  while (!keep_or_take_turn(thread)) ++runs;
  return runs;
}

}  // namespace

TEST_CASE("The turn is one thread's until another has an event") {
  begin_anew();
  g_clock.start();
  CHECK_FALSE(has_turn(g_first));
  CHECK(keep_or_take_turn(g_first));
  CHECK(has_turn(g_first));
  CHECK_FALSE(keep_or_take_turn(g_second));
  CHECK(has_turn(g_first));

  const std::uint64_t own = time_of_its_own(g_first);
  CHECK(has_turn(g_first));
  const std::uint64_t others = time_of_its_own(g_second);
  CHECK_FALSE(has_turn(g_first));
  CHECK(g_turn[0] == 0);
  CHECK(own <= others);
  g_turn[0] = 0;
}

TEST_CASE("A turn is ended by who saw it, and not the next one's by mistake") {
  begin_anew();
  REQUIRE(keep_or_take_turn(g_first));
  const std::uint64_t seen = its_turn_after(0);
  CHECK(seen == turn_of(g_first));
  end_turn(seen);
  REQUIRE(keep_or_take_turn(g_second));
  end_turn(seen);
  CHECK(has_turn(g_second));
  g_turn[0] = 0;
}

TEST_CASE("Who lost the turn soon waits longer each time, up to a limit, and not after a long turn") {
  begin_anew();
  unsigned wait = 0;
  for (int turn = 0; turn < 14; ++turn) {
    CHECK(runs_until_turn(g_first) == wait + 1);
    end_turn(turn_of(g_first));
    wait = wait < 511 ? wait * 2 + 1 : 511;
  }
  CHECK(wait == 511);

  CHECK(runs_until_turn(g_first) == wait + 1);
  for (int run = 0; run < 8; ++run) REQUIRE(keep_or_take_turn(g_first));
  end_turn(turn_of(g_first));
  CHECK(runs_until_turn(g_first) == 1);
  g_turn[0] = 0;
}

TEST_CASE("A signal handler's events take no turn") {
  begin_anew();
  g_first.depth = 1;
  for (int run = 0; run < 1000; ++run) REQUIRE_FALSE(keep_or_take_turn(g_first));
  CHECK(g_turn[0] == 0);
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

volatile bool g_took;
volatile std::uint64_t g_time_of_turn;

/// What another thread may do at any moment: takes the turn, and reads the time of its run.
void take_turn_of_second() {
  std::uint64_t nobody = 0;
  if (!__atomic_compare_exchange_n(&g_turn[0], &nobody, turn_of(g_second), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return;
  g_took = true;
  g_time_of_turn = g_clock.now();
}

}  // namespace

TEST_CASE("An event that saw no turn is no later than the turn that another thread takes after it looked") {
  const Recording recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  many_threads();
  const State state_before = g_state;
  g_state = State::kOn;
  const bool first_of_run = GENERATE(true, false);
  // Events differ a little in length: a step is beyond all of them when several events had not so many.
  unsigned ended = 0, too_short = 0;
  for (unsigned step = 1; too_short < 10; step += 2) {
    begin_anew();
    state->turn_wait = 100;  // it does not try for the turn itself
    __atomic_store_n(&g_next_sample, 0, __ATOMIC_RELAXED);
    state->look_due = 0;
    if (first_of_run) state->stream.end_run();
    else state->stream.begin_run(1000);
    g_took = false;
    const int block = 0;
    const bool reached =
        interrupt_after(step, [&] { detail::freed(&block, 0, 0, arch::stack_pointer()); }, take_turn_of_second);
    if (!reached) ++too_short;
    if (!g_took) continue;
    if (!has_turn(g_second)) {
      ++ended;
      continue;
    }
    INFO("turn taken at instruction " << step);
    REQUIRE(state->stream.last_time() <= g_time_of_turn);
  }
  CHECK(ended > 50);
  g_state = state_before;
  g_turn[0] = 0;
}
#endif
