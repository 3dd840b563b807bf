#include "preload/recorder/control/control.h"

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/page_owners.h"
#include "preload/recorder/process/fast_path_mode.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/residency/snapshots.h"
#include "preload/recorder/trace/recording.h"

namespace heapprof::recorder {

namespace {
constinit std::uint32_t g_last_request = 0;  ///< the last one handled; `acknowledged` in the mailbox is not trusted
constexpr std::size_t kMaxMarkBytes = sizeof FileHeader::Mailbox::text;

constexpr Ticks later_of(Ticks a, Ticks b) noexcept { return a > b ? a : b; }

/// Copies the state in g_pause to the fast-path guard and the header. If another thread changes g_pause meanwhile,
/// both are written again.
void publish_paused() noexcept {
  std::uint64_t pause;
  do {
    pause = __atomic_load_n(&g_pause, __ATOMIC_SEQ_CST);
    const bool paused = (pause & 1) != 0;
    paused ? set_guard_bit(kGuardPaused) : clear_guard_bit(kGuardPaused);
    __atomic_store_n(&g_trace.header()->mailbox.paused, paused ? 1u : 0u, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
  } while (__atomic_load_n(&g_pause, __ATOMIC_SEQ_CST) != pause);
}

}  // namespace

void begin_paused(Ticks time) noexcept {
  __atomic_store_n(&g_pause, tick_count(time) * 2 + 1, __ATOMIC_SEQ_CST);
  publish_paused();
}

void set_paused(ThreadState& thread, bool paused) noexcept {
  std::uint64_t last = __atomic_load_n(&g_pause, __ATOMIC_SEQ_CST);
  Ticks time{};
  bool changed = false;
  while (!changed && ((last & 1) != 0) != paused) {
    // Later than the last change, and not before the stream's last event: so the record will have exactly this time,
    // whatever other threads do before it is written.
    time = later_of(g_clock.now(), later_of(Ticks{last / 2 + 1}, thread.stream.last_time()));
    changed = __atomic_compare_exchange_n(&g_pause, &last, tick_count(time) * 2 + (paused ? 1 : 0), false,
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  // Called even without a change: the thread that changed g_pause may have died, or left by longjmp, before it
  // published the change.
  publish_paused();
  if (changed) thread.stream.append(paused ? Op::kPause : Op::kResume, time, 0, 0, 0, 0);
}

void commit_mark(ThreadState& thread, const char* text, std::size_t bytes) noexcept {
  // All runs of all threads end here: events after the mark have a later time.
  const Ticks now = g_clock.now();
  // The record has the time of the mark, which may be long after the last event: slices of time choose it by that.
  thread.stream.advance_time(now);
  if (!is_single_threaded()) disown_pages();
  thread.stream.append_text(TextKind::kMark, 0, tick_count(now), text, bytes < kMaxMarkBytes ? bytes : kMaxMarkBytes);
  take_snapshot_within_budget(thread, SnapshotReason::kMark);
  thread.stream.end_run();
}

void reset_mailbox() noexcept { __atomic_store_n(&g_last_request, 0, __ATOMIC_RELAXED); }

void handle_control_request(ThreadState& thread) noexcept {
  if (in_forked_child()) return;
  FileHeader::Mailbox& mailbox = g_trace.header()->mailbox;
  // First g_last_request, so that `request` is no older one. A thread that is held up here, while others handle this
  // request and the next one, finds that g_last_request has changed.
  std::uint32_t last = __atomic_load_n(&g_last_request, __ATOMIC_ACQUIRE);
  const std::uint32_t request = __atomic_load_n(&mailbox.request, __ATOMIC_ACQUIRE);
  if (request == last) return;
  if (!__atomic_compare_exchange_n(&g_last_request, &last, request, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    return;
  switch (static_cast<MailboxCommand>(__atomic_load_n(&mailbox.command, __ATOMIC_RELAXED))) {
    case MailboxCommand::kPause: set_paused(thread, true); break;
    case MailboxCommand::kResume: set_paused(thread, false); break;
    case MailboxCommand::kMark: {
      char text[kMaxMarkBytes];
      const std::uint32_t bytes = __atomic_load_n(&mailbox.text_bytes, __ATOMIC_RELAXED);
      __builtin_memcpy(text, mailbox.text, sizeof text);
      commit_mark(thread, text, bytes < sizeof text ? bytes : sizeof text);
      break;
    }
    case MailboxCommand::kSnapshot: {
      if (take_snapshot(thread, SnapshotReason::kRequest)) break;
      // The thread that takes the next sample handles the request again.
      std::uint32_t handled = request;
      __atomic_compare_exchange_n(&g_last_request, &handled, last, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
      return;
    }
    default: break;
  }
  __atomic_store_n(&mailbox.acknowledged, request, __ATOMIC_RELEASE);
}

}  // namespace heapprof::recorder
