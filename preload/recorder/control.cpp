#include "preload/recorder/control.h"

#include "preload/recorder/clock.h"
#include "preload/recorder/fork_watch.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/turn.h"

namespace heapprof::recorder {

namespace {
constinit std::uint32_t g_last_request = 0;  ///< private: what the mailbox says of itself is not trusted
constexpr std::size_t kMaxMark = sizeof FileHeader::Mailbox::text;

/// Makes the gate and the header agree with g_paused. Another thread may change that meanwhile: whoever finds that it
/// has changed writes both again.
void publish_paused() noexcept {
  bool paused;
  do {
    paused = __atomic_load_n(&g_paused, __ATOMIC_SEQ_CST);
    paused ? raise_at_gate(kGatePaused) : lower_at_gate(kGatePaused);
    __atomic_store_n(&g_trace_file.header()->mailbox.paused, paused ? 1u : 0u, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  } while (__atomic_load_n(&g_paused, __ATOMIC_SEQ_CST) != paused);
}

}  // namespace

void set_paused(ThreadState& state, bool paused) noexcept {
  const bool changed = __atomic_exchange_n(&g_paused, paused, __ATOMIC_SEQ_CST) != paused;
  publish_paused();  // also when nothing changed: who changed it may have died, or left by longjmp, before this
  if (changed) state.stream.append(paused ? Op::kPause : Op::kResume, g_clock.now(), 0, 0, 0, 0);
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
