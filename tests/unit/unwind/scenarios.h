// Shared scenarios: functions with frames of several shapes that call hook(), and run(), which runs a scenario and
// requires that every stack was right.
#pragma once

#include <alloca.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "harness.h"

namespace unwind_test {

inline const bool g_started = heapprof::unwind::start({.max_depth = 1u << 16, .shadow_stack = true});

/// Used by hook().
inline thread_local Hook* t_hook = nullptr;
[[gnu::noinline]] inline void hook() {
  (*t_hook)();
  asm volatile("");
}

/// Runs a scenario with a new recorder and requires that all stacks were right.
template <typename Scenario>
Comparison run(Scenario&& scenario) {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  t_hook = &here;
  scenario();
  t_hook = nullptr;
  INFO(here.result.first_difference);
  CHECK(here.result.stacks > 0);
  CHECK(here.result.different == 0);
  return here.result;
}

inline volatile int g_sink;

[[gnu::noinline]] inline int plain_recursion(int depth) {
  if (depth == 0) hook();
  const int below = depth == 0 ? 0 : plain_recursion(depth - 1);
  if (depth % 7 == 0) hook();
  g_sink = depth;
  return below + depth;
}

[[gnu::noinline, gnu::optimize("omit-frame-pointer")]] inline int no_frame_pointer(int depth) {
  volatile char local[24];
  local[depth % 24] = 1;
  if (depth == 0) hook();
  else no_frame_pointer(depth - 1);
  if (depth % 3 == 0) hook();
  return local[0];
}

[[gnu::noinline]] inline int with_alloca(int depth) {
  auto* room = static_cast<volatile char*>(alloca(16 + depth * 37));
  room[depth] = 1;
  if (depth == 0) hook();
  else with_alloca(depth - 1);
  hook();
  return room[0];
}

[[gnu::noinline]] inline int over_aligned(int depth) {
  alignas(64) volatile char local[100];
  auto* room = static_cast<volatile char*>(alloca(1 + depth * 3));
  local[depth % 100] = 1;
  room[0] = 1;
  if (depth == 0) hook();
  else over_aligned(depth - 1);
  hook();
  return local[0] + room[0];
}

/// A stack with a guard page at its low end.
class CoroutineStack {
 public:
  static constexpr std::size_t kBytes = 64u << 10;
  CoroutineStack() {
    base_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, 4096, PROT_NONE);
  }
  ~CoroutineStack() {
    munmap(base_, kBytes);
    unwind::invalidate_stack_region(reinterpret_cast<std::uint64_t>(base_), kBytes);
  }
  CoroutineStack(const CoroutineStack&) = delete;
  char* base() { return base_; }

 private:
  char* base_;
};

}  // namespace unwind_test
