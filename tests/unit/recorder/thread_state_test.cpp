// How a thread's state survives its owner: what a dead thread had taken is free again.
#include "preload/recorder/thread_state.h"

#include "tests/unit/recorder/recording.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

TEST_CASE("Who gets the state of a thread that died inside the recorder is not inside") {
  const Recording recording(4096);
  REQUIRE(attach_thread() != nullptr);
  ThreadState* dead = nullptr;
  run_to_death([&] {
    dead = attach_thread();
    if (dead == nullptr) return;
    // In a patched function, in an event, in a signal handler's event: what the recorder leaves in each.
    dead->calls[0] = {&dead, nullptr, &dead, 1};
    dead->intercepted = 1;
    dead->busy = arch::stack_pointer();
    if (ThreadState* const nested = nested_state(*dead)) nested->busy = arch::stack_pointer();
    die();
  });
  REQUIRE(dead != nullptr);
  REQUIRE(dead->nested != nullptr);
  ThreadState* heir = nullptr;
  run_to_death([&] { heir = attach_thread(); });
  REQUIRE(heir == dead);
  CHECK(heir->busy == 0);
  CHECK(heir->nested->busy == 0);
  CHECK(heir->intercepted == 0);
  CHECK(heir->calls[0].frame == nullptr);
}

#ifdef __x86_64__
TEST_CASE("A thread that dies while it takes a sample leaves the next one to the others") {
  const Recording recording(4096);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  static volatile bool died;
  unsigned deaths = 0;
  for (long step = 1;; step += 10) {
    __atomic_store_n(&g_next_sample, 0, __ATOMIC_RELAXED);
    died = false;
    run_to_death([step] {
      ThreadState* const its = attach_thread();
      const auto die_there = [] {
        died = true;
        die();
      };
      if (its != nullptr) interrupt_at(step, die_there, [its] { sample_if_due(*its, g_clock.now()); });
    });
    if (!died) break;
    ++deaths;
    const std::uint64_t deadline = sys::clock_ns(CLOCK_MONOTONIC) + 5'000'000'000;
    bool sampled = false;
    while (!sampled && sys::clock_ns(CLOCK_MONOTONIC) < deadline) sampled = sample_if_due(*state, g_clock.now());
    INFO("died at instruction " << step);
    REQUIRE(sampled);
  }
  CHECK(deaths > 10);
}
#endif
