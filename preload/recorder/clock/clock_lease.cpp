#include "preload/recorder/clock/clock_lease.h"

namespace heapprof::recorder {

constinit std::uint64_t g_turn[2] = {};

namespace {

/// Runs that a turn must last to have been worth taking.
constexpr std::uint32_t kLongTurn = 8;
/// Runs to wait after many turns that were not.
constexpr std::uint32_t kLongestWait = 511;

bool take_turn(const ThreadState& thread) noexcept {
  std::uint64_t nobody = 0;
  return __atomic_compare_exchange_n(&g_turn[0], &nobody, turn_of(thread), false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

}  // namespace

bool keep_or_take_turn(ThreadState& thread) noexcept {
  if (has_turn(thread)) {
    ++thread.turn_runs;
    return true;
  }
  if (thread.turn_runs != 0) {
    const std::uint32_t last_wait = thread.turn_last_wait;
    thread.turn_last_wait = thread.turn_runs > kLongTurn ? 0
                            : last_wait < kLongestWait   ? last_wait * 2 + 1
                                                         : kLongestWait;
    thread.turn_wait = thread.turn_last_wait;
    thread.turn_runs = 0;
  }
  if (thread.turn_wait != 0) {
    --thread.turn_wait;
    return false;
  }
  // What a signal handler does it does seldom.
  if (thread.depth != 0 || !take_turn(thread)) return false;
  thread.turn_runs = 1;
  return true;
}

}  // namespace heapprof::recorder
