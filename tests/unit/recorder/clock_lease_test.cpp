// How the clock lease is acquired and revoked, how long a thread waits before it tries again, and that no event of a
// thread without the lease is later than the time read by a thread that acquires it afterwards.
#include "preload/recorder/clock/clock_lease.h"

#include "preload/recorder/recorder.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

ThreadState g_first, g_second;

/// No thread holds the lease, or has held it.
void reset_lease() {
  g_first = ThreadState{};
  g_second = ThreadState{};
  g_clock_lease[0] = 0;
}

/// The number of runs that end until `thread` tries to acquire the lease and succeeds.
unsigned runs_until_lease(ThreadState& thread) {
  unsigned runs = 1;
  while (!keep_or_acquire_clock_lease(thread)) ++runs;
  return runs;
}

}  // namespace

TEST_CASE("A thread holds the lease until another thread has an event") {
  reset_lease();
  g_clock.start();
  CHECK_FALSE(holds_clock_lease(g_first));
  CHECK(keep_or_acquire_clock_lease(g_first));
  CHECK(holds_clock_lease(g_first));
  CHECK_FALSE(keep_or_acquire_clock_lease(g_second));
  CHECK(holds_clock_lease(g_first));

  const Ticks own = now_revoking_lease(g_first);
  CHECK(holds_clock_lease(g_first));
  const Ticks others = now_revoking_lease(g_second);
  CHECK_FALSE(holds_clock_lease(g_first));
  CHECK(g_clock_lease[0] == 0);
  CHECK(own <= others);
  g_clock_lease[0] = 0;
}

TEST_CASE("A thread revokes only the lease that it has read, not that of the next holder") {
  reset_lease();
  REQUIRE(keep_or_acquire_clock_lease(g_first));
  const LeaseHolder seen = lease_holder_after(Ticks{0});
  CHECK(seen == lease_holder(g_first));
  revoke_clock_lease(seen);
  REQUIRE(keep_or_acquire_clock_lease(g_second));
  revoke_clock_lease(seen);
  CHECK(holds_clock_lease(g_second));
  g_clock_lease[0] = 0;
}

TEST_CASE("After each short lease a thread waits longer, up to a limit; after a long one it does not wait") {
  reset_lease();
  unsigned wait = 0;
  for (int lease = 0; lease < 14; ++lease) {
    CHECK(runs_until_lease(g_first) == wait + 1);
    revoke_clock_lease(lease_holder(g_first));
    wait = wait < 511 ? wait * 2 + 1 : 511;
  }
  CHECK(wait == 511);

  CHECK(runs_until_lease(g_first) == wait + 1);
  for (int run = 0; run < 8; ++run) REQUIRE(keep_or_acquire_clock_lease(g_first));
  revoke_clock_lease(lease_holder(g_first));
  CHECK(runs_until_lease(g_first) == 1);
  g_clock_lease[0] = 0;
}

TEST_CASE("A nested state never acquires the lease") {
  reset_lease();
  g_first.depth = 1;
  for (int run = 0; run < 1000; ++run) REQUIRE_FALSE(keep_or_acquire_clock_lease(g_first));
  CHECK(g_clock_lease[0] == 0);
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

volatile bool g_acquired;
volatile std::uint64_t g_time_under_lease;

/// What another thread may do at any moment: acquires the lease, and reads the time of its run.
void acquire_for_second() {
  std::uint64_t no_holder = 0;
  const auto holder = static_cast<std::uint64_t>(lease_holder(g_second));
  if (!__atomic_compare_exchange_n(&g_clock_lease[0], &no_holder, holder, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return;
  g_acquired = true;
  g_time_under_lease = tick_count(g_clock.now());
}

}  // namespace

TEST_CASE("An event that found no lease is no later than a lease that another thread acquires afterwards") {
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  set_multi_threaded();
  const State state_before = g_state;
  g_state = State::kOn;
  const bool first_of_run = GENERATE(true, false);
  // The number of instructions differs slightly between events. When ten events have ended before their step was
  // reached, later steps are beyond the end of every event.
  unsigned revoked = 0, too_short = 0;
  static InstructionStop stop;
  for (unsigned step = 1; too_short < 10; step += stop.missed() ? 0 : 2) {
    reset_lease();
    state->lease.wait = 100;  // it does not try to acquire the lease itself
    __atomic_store_n(&g_next_sample, 0, __ATOMIC_RELAXED);
    state->next_check = Ticks{0};
    if (first_of_run) state->stream.end_run();
    else state->stream.begin_run(1000);
    g_acquired = false;
    const int block = 0;
    const std::uint64_t fp = to_address(arch::stack_pointer());
    const bool reached = interrupt_after(
        stop, step, [&] { detail::freed(&block, {}, {}, fp); }, acquire_for_second);
    if (!reached && !stop.missed()) ++too_short;
    if (!g_acquired) continue;
    if (!holds_clock_lease(g_second)) {
      ++revoked;
      continue;
    }
    INFO("acquired at instruction " << step);
    REQUIRE(tick_count(state->stream.last_time()) <= g_time_under_lease);
  }
  CHECK(revoked > 50);
  g_state = state_before;
  g_clock_lease[0] = 0;
}
#endif
