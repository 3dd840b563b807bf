// Interrupts code after a given number of instructions, as a signal handler or another thread can do at any
// instruction. HEAPPROF_SINGLE_STEP is defined where this is possible: on x86-64 (with the trap flag), but not with
// ThreadSanitizer, whose own code would be interrupted, too.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define HEAPPROF_SINGLE_STEP 1

#include <signal.h>
#include <ucontext.h>

namespace heapprof::test {

namespace single_step {

inline constexpr greg_t kTrapFlag = 1 << 8;
inline volatile bool g_stepping = false;
inline volatile unsigned g_steps_left = 0;
inline void (*g_interrupt)() = nullptr;

inline void step(int, siginfo_t*, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  if (g_stepping && g_steps_left != 0) {
    g_steps_left = g_steps_left - 1;
    registers[REG_EFL] |= kTrapFlag;
    return;
  }
  registers[REG_EFL] &= ~kTrapFlag;
  if (!g_stepping) return;
  g_stepping = false;
  g_interrupt();
}

}  // namespace single_step

/// Calls `body`, and `interrupt` in a signal handler after `steps` instructions of it. False: `body` ended before.
/// Not thread safe.
template <typename Body>
bool interrupt_after(unsigned steps, Body body, void (*interrupt)()) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = single_step::step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  single_step::g_interrupt = interrupt;
  single_step::g_steps_left = steps;
  single_step::g_stepping = true;
  raise(SIGTRAP);
  body();
  const bool interrupted = !single_step::g_stepping;
  single_step::g_stepping = false;
  sigaction(SIGTRAP, &before, nullptr);
  return interrupted;
}

}  // namespace heapprof::test

#endif
