// For tests of the recorder's parts: a trace that is recorded to, and threads that die.
#pragma once

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/recorder/trace/recording.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/stack_bounds.h"
#include "tests/support/single_step.h"
#include "tests/unit/recorder/read_back.h"

namespace heapprof::test {

/// A trace file to which thread states can be attached, during the lifetime of this object. No thread has a state
/// before and after it.
class ThreadFixture {
 public:
  explicit ThreadFixture(std::uint32_t block_bytes) {
    recorder::g_settings.block_bytes = block_bytes;
    REQUIRE(recorder::g_trace.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
    recorder::g_trace.publish_header();
    recorder::g_clock.start();
    recorder::g_call_tree.reset();
    unwind::start_probing();
    forget();
  }
  ~ThreadFixture() {
    recorder::g_settings = settings_before_;
    forget();
    recorder::g_trace.forget();
  }
  ThreadFixture(const ThreadFixture&) = delete;
  ThreadFixture& operator=(const ThreadFixture&) = delete;

  const Folder folder;

 private:
  static void forget() {
    recorder::forget_threads();
    recorder::t_local.state = nullptr;
    recorder::g_next_sample = 0;
  }
  const recorder::Settings settings_before_ = recorder::g_settings;
};

/// Runs `body` on a new thread, and returns when that thread no longer exists in the kernel. `body` may end by
/// die(), if that is available.
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

#ifdef HEAPPROF_SINGLE_STEP
/// Ends the calling thread at once. Not available with ThreadSanitizer, which waits forever for a thread whose end it
/// did not intercept.
[[noreturn]] inline void die() {
  for (;;) syscall(SYS_exit, 0);
}
#endif

}  // namespace heapprof::test
