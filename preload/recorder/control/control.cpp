#include "preload/recorder/control/control.h"

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/clock_lease.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/fork_watch.h"

namespace heapprof::recorder {

namespace {
constinit std::uint32_t g_last_request = 0;  ///< private: what the mailbox says of itself is not trusted
constexpr std::size_t kMaxMark = sizeof FileHeader::Mailbox::text;

constexpr std::uint64_t later_of(std::uint64_t a, std::uint64_t b) noexcept { return a > b ? a : b; }

/// Makes the gate and the header agree with g_pause. Another thread may change that meanwhile: whoever finds that it
/// has changed writes both again.
void publish_paused() noexcept {
  std::uint64_t pause;
  do {
    pause = __atomic_load_n(&g_pause, __ATOMIC_SEQ_CST);
    const bool paused = (pause & 1) != 0;
    paused ? raise_at_gate(kGatePaused) : lower_at_gate(kGatePaused);
    __atomic_store_n(&g_trace_file.header()->mailbox.paused, paused ? 1u : 0u, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  } while (__atomic_load_n(&g_pause, __ATOMIC_SEQ_CST) != pause);
}

}  // namespace

void set_paused(ThreadState& state, bool paused) noexcept {
  std::uint64_t last = __atomic_load_n(&g_pause, __ATOMIC_SEQ_CST);
  std::uint64_t time = 0;
  bool changed = false;
  while (!changed && ((last & 1) != 0) != paused) {
    // The record has exactly this time, whatever other threads do before it is written: it is later than the last
    // change, and the stream does not raise it.
    time = later_of(g_clock.now(), later_of(last / 2 + 1, state.stream.last_time()));
    changed = __atomic_compare_exchange_n(&g_pause, &last, time * 2 + (paused ? 1 : 0), false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
  }
  publish_paused();  // also when nothing changed: who changed it may have died, or left by longjmp, before this
  if (changed) state.stream.append(paused ? Op::kPause : Op::kResume, time, 0, 0, 0, 0);
}

void set_mark(ThreadState& state, const char* text, std::size_t bytes) noexcept {
  // No run goes on past it, of this thread or of the one whose turn it is: what comes after a mark has a later time.
  state.stream.append_text(TextKind::kMark, 0, time_of_its_own(state), text, bytes < kMaxMark ? bytes : kMaxMark);
  state.stream.end_run();
}

void forget_mailbox() noexcept { __atomic_store_n(&g_last_request, 0, __ATOMIC_RELAXED); }

void read_mailbox(ThreadState& state) noexcept {
  if (in_forked_child()) return;
  FileHeader::Mailbox& mailbox = g_trace_file.header()->mailbox;
  const std::uint32_t request = __atomic_load_n(&mailbox.request, __ATOMIC_ACQUIRE);
  if (request == __atomic_load_n(&g_last_request, __ATOMIC_RELAXED)) return;
  if (__atomic_exchange_n(&g_last_request, request, __ATOMIC_RELAXED) == request) return;
  switch (static_cast<MailboxCommand>(__atomic_load_n(&mailbox.command, __ATOMIC_RELAXED))) {
    case MailboxCommand::kPause: set_paused(state, true); break;
    case MailboxCommand::kResume: set_paused(state, false); break;
    case MailboxCommand::kMark: {
      char text[kMaxMark];
      const std::uint32_t bytes = __atomic_load_n(&mailbox.text_bytes, __ATOMIC_RELAXED);
      __builtin_memcpy(text, mailbox.text, sizeof text);
      set_mark(state, text, bytes < sizeof text ? bytes : sizeof text);
      break;
    }
    default: break;
  }
  __atomic_store_n(&mailbox.acknowledged, request, __ATOMIC_RELEASE);
}

}  // namespace heapprof::recorder
