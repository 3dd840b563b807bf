// Stacks of all shapes, compared frame by frame with libunwind. The interesting code is compiled with what
// the scenario needs (no frame pointer, realigned stacks), whatever the build's flags are.
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>

#include "harness.h"

using namespace unwind_test;

namespace {

const bool g_started = heapprof::unwind::start({.max_depth = 1u << 16, .shadow_stack = true});

/// What the scenario's frames call at their innermost point.
thread_local Hook* t_hook = nullptr;
void hook() { (*t_hook)(); asm volatile(""); }

/// Runs a scenario with a recorder of its own and demands that all stacks were right.
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

volatile int g_sink;

[[gnu::noinline]] int plain_recursion(int depth) {
  if (depth == 0) hook();
  const int below = depth == 0 ? 0 : plain_recursion(depth - 1);
  if (depth % 7 == 0) hook();
  return below + (g_sink = depth);
}

[[gnu::noinline, gnu::optimize("omit-frame-pointer")]] int no_frame_pointer(int depth) {
  volatile char local[24];
  local[depth % 24] = 1;
  if (depth == 0) hook();
  else no_frame_pointer(depth - 1);
  if (depth % 3 == 0) hook();
  return local[0];
}

[[gnu::noinline]] int with_alloca(int depth) {
  auto* room = static_cast<volatile char*>(alloca(16 + depth * 37));
  room[depth] = 1;
  if (depth == 0) hook();
  else with_alloca(depth - 1);
  hook();
  return room[0];
}

[[gnu::noinline]] int over_aligned(int depth) {
  alignas(64) volatile char local[100];
  auto* room = static_cast<volatile char*>(alloca(1 + depth * 3));
  room[0] = local[depth % 100] = 1;
  if (depth == 0) hook();
  else over_aligned(depth - 1);
  hook();
  return local[0] + room[0];
}

[[noreturn, gnu::noinline]] void throw_from(int depth) {
  if (depth == 0) {
    hook();
    throw std::runtime_error("thrown");
  }
  throw_from(depth - 1);
}

}  // namespace

TEST_CASE("plain recursion") {
  run([] { plain_recursion(1); plain_recursion(200); });
}

TEST_CASE("frames without frame pointer") {
  run([] { no_frame_pointer(50); });
}

TEST_CASE("alloca") {
  run([] { with_alloca(40); });
}

TEST_CASE("realigned frames") {
  run([] { over_aligned(40); });
}
