// What tests of the recorder's parts need around them: a trace that is recorded to, threads that die, and a way to
// stop at any instruction.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "preload/recorder/call_tree.h"
#include "preload/recorder/clock.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/sampler.h"
#include "preload/recorder/settings.h"
#include "preload/recorder/thread_state.h"
#include "preload/recorder/turn.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/stack_bounds.h"
#include "tests/unit/recorder/read_back.h"

namespace heapprof::test {

/// A trace file that states of threads can be attached to, for the life of this object. Nobody has a state before and
/// after.
class Recording {
 public:
  explicit Recording(std::uint32_t block_bytes) {
    recorder::g_settings.block_bytes = block_bytes;
    REQUIRE(recorder::g_trace_file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
    recorder::g_trace_file.publish_header();
    recorder::g_clock.start();
    recorder::g_call_tree.reset();
    unwind::start_probing();
    forget();
  }
  ~Recording() {
    recorder::g_settings = settings_before_;
    forget();
    recorder::g_trace_file.abandon();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  const Folder folder;

 private:
  static void forget() {
    recorder::forget_threads();
    recorder::t_local.state = nullptr;
    recorder::g_next_sample = 0;
  }
  const recorder::Settings settings_before_ = recorder::g_settings;
};

/// Runs `body` on a thread of its own, and returns when the kernel does not know that thread any more. It may end by
/// die(), where there is that.
template <typename Body>
void run_to_death(Body body) {
  struct Argument {
    Body& body;
    int thread;
  } argument{body, 0};
  pthread_t thread;
  const auto run = [](void* opaque) -> void* {
    auto& its = *static_cast<Argument*>(opaque);
    its.thread = sys::thread_id();
    its.body();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, nullptr, run, &argument) == 0);
  pthread_join(thread, nullptr);
  while (sys::thread_exists(argument.thread)) sched_yield();
}

// By the trap flag of x86-64. ThreadSanitizer waits for ever for a thread whose end it did not see.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define HEAPPROF_TEST_SINGLE_STEPS

/// Ends the calling thread here, wherever it is.
[[noreturn]] inline void die() {
  for (;;) syscall(SYS_exit, 0);
}

namespace single_step {
inline volatile long steps_left;
inline volatile sig_atomic_t active;
inline void (*volatile at_step)();

inline void step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 0x100;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  if (active != 0) steps_left = steps_left - 1;
  if (active != 0 && steps_left > 0) {
    flags |= kTrapFlag;
    return;
  }
  flags &= ~kTrapFlag;
  if (active == 0) return;
  active = 0;
  at_step();
}
}  // namespace single_step

/// Runs `action` and calls `interrupt` in a signal handler at its `number`th instruction. False when it has not so
/// many. By one thread at a time.
template <typename Action>
bool interrupt_at(long number, void (*interrupt)(), Action action) {
  struct sigaction handler {}, before {};
  handler.sa_sigaction = single_step::step;
  handler.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &handler, &before);
  single_step::at_step = interrupt;
  single_step::steps_left = number;
  single_step::active = 1;
  raise(SIGTRAP);
  action();
  const bool interrupted = single_step::active == 0;
  single_step::active = 0;
  raise(SIGTRAP);  // the trap flag may still be set
  sigaction(SIGTRAP, &before, nullptr);
  return interrupted;
}
#endif

}  // namespace heapprof::test
