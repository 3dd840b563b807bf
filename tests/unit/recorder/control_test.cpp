// Pause, resume and mark, from the program and through the mailbox.
#include "preload/recorder/control/control.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string_view>

#include "preload/recorder/process/settings.h"
#include "tests/support/single_step.h"
#include "tests/unit/recorder/stream_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

bool guard_is_paused() { return (g_fork_page->fast_path_guard & kGuardPaused) != 0; }

/// Writes a control request as `heapprof control` does.
void request(StreamFixture& recording, MailboxCommand command, std::string_view text = {}) {
  FileHeader::Mailbox& mailbox = recording.header().mailbox;
  std::memcpy(mailbox.text, text.data(), text.size());
  mailbox.text_bytes = static_cast<std::uint32_t>(text.size());
  mailbox.command = static_cast<std::uint32_t>(command);
  ++mailbox.request;
}

bool is_acknowledged(const StreamFixture& recording) {
  return recording.header().mailbox.acknowledged == recording.header().mailbox.request;
}

/// The text of the last mark.
std::string last_mark(const StreamFixture& recording) {
  std::string mark = "no mark";
  for (const Text& text : read_stream(recording.folder / "t", StreamId{1}).texts)
    if (text.record.node == static_cast<std::uint32_t>(TextKind::kMark)) mark = text.text;
  return mark;
}

}  // namespace

TEST_CASE("The record of a mark has the time of the mark, however long after the last event") {
  StreamFixture recording;
  recording.state->stream.append(Op::kAlloc, g_clock.now(), 0x1000, 16, 0, 0);
  const Ticks before = g_clock.now();
  commit_mark(*recording.state, "later", 5);
  std::size_t marks = 0;
  for (const Text& text : read_stream(recording.folder / "t", StreamId{1}).texts) {
    if (text.record.node != static_cast<std::uint32_t>(TextKind::kMark)) continue;
    ++marks;
    CHECK(text.record.address >= tick_count(before));
    CHECK(text.record.time == text.record.address);
  }
  CHECK(marks == 1);
}

TEST_CASE("A pause is recorded once, shown in the header, and ended by a resume") {
  StreamFixture recording;
  set_paused(*recording.state, true);
  set_paused(*recording.state, true);
  CHECK(paused());
  CHECK(guard_is_paused());
  CHECK(recording.header().mailbox.paused == 1);
  CHECK(recording.ops() == std::vector{Op::kPause});
  set_paused(*recording.state, false);
  set_paused(*recording.state, false);
  CHECK_FALSE(paused());
  CHECK_FALSE(guard_is_paused());
  CHECK(recording.header().mailbox.paused == 0);
  CHECK(recording.ops() == std::vector{Op::kPause, Op::kResume});
}

TEST_CASE("A repeated pause completes a pause whose thread ended before it was complete") {
  StreamFixture recording;
  g_pause |= 1;  // what that thread did before it died
  set_paused(*recording.state, true);
  CHECK(guard_is_paused());
  CHECK(recording.header().mailbox.paused == 1);
  g_pause &= ~std::uint64_t{1};
  set_paused(*recording.state, false);
  CHECK_FALSE(guard_is_paused());
  CHECK(recording.header().mailbox.paused == 0);
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

// Each thread has its own stream.
ThreadState* g_pausing;
ThreadState* g_resuming;

/// Whether the last of these records in time, over both threads, is a pause.
bool last_record_is_pause(const StreamFixture& recording) {
  std::uint64_t last = 0;
  bool paused = false;
  for (const StreamId stream : {StreamId{1}, StreamId{2}}) {
    for (const Slot& slot : read_stream(recording.folder / "t", stream).records) {
      if (slot.op() != Op::kPause && slot.op() != Op::kResume) continue;
      REQUIRE(slot.time != last);
      if (slot.time < last) continue;
      last = slot.time;
      paused = slot.op() == Op::kPause;
    }
  }
  return paused;
}

}  // namespace

TEST_CASE("The fast-path guard, the header and the trace agree when one thread pauses while another resumes") {
  const auto check = [](bool paused_before, void (*body)(), void (*interrupt)()) {
    for (unsigned steps = 0;; ++steps) {
      StreamFixture recording;
      ThreadState other{};
      REQUIRE(other.stream.open(g_trace, StreamId{2}, 4096) == nullptr);
      g_pausing = recording.state.get();
      g_resuming = &other;
      if (paused_before) set_paused(*g_pausing, true);
      const bool interrupted = interrupt_after(steps, body, interrupt);
      INFO("interrupted after " << steps << " instructions");
      REQUIRE(guard_is_paused() == paused());
      REQUIRE((recording.header().mailbox.paused != 0) == paused());
      REQUIRE(last_record_is_pause(recording) == paused());
      set_paused(*g_resuming, false);
      if (!interrupted) {
        CHECK(steps > 10);
        return;
      }
    }
  };
  const auto pause = [] { set_paused(*g_pausing, true); };
  const auto resume = [] { set_paused(*g_resuming, false); };
  SECTION("the pause is interrupted") { check(false, pause, resume); }
  SECTION("the resume is interrupted") { check(true, resume, pause); }
}
#endif

TEST_CASE("A control request is handled once and acknowledged") {
  StreamFixture recording;
  reset_mailbox();
  handle_control_request(*recording.state);
  CHECK(recording.records().empty());
  request(recording, MailboxCommand::kPause);
  CHECK_FALSE(is_acknowledged(recording));
  for (int i = 0; i < 3; ++i) handle_control_request(*recording.state);
  CHECK(is_acknowledged(recording));
  CHECK(recording.ops() == std::vector{Op::kPause});
  request(recording, MailboxCommand::kResume);
  for (int i = 0; i < 3; ++i) handle_control_request(*recording.state);
  CHECK(is_acknowledged(recording));
  CHECK(recording.ops() == std::vector{Op::kPause, Op::kResume});
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

StreamFixture* g_recording;
ThreadState* g_other;
bool g_in_progress;  ///< the interrupted thread handles the first request

std::size_t count_marks(const StreamFixture& recording) {
  std::size_t marks = 0;
  for (const StreamId stream : {StreamId{1}, StreamId{2}})
    for (const Text& text : read_stream(recording.folder / "t", stream).texts)
      if (text.record.node == static_cast<std::uint32_t>(TextKind::kMark)) ++marks;
  return marks;
}

}  // namespace

TEST_CASE("A request is handled once, also if a thread is held up until the next one has been handled") {
  const bool snapshots_before = g_settings.snapshots;
  g_settings.snapshots = false;
  g_in_progress = false;
  const auto handle = [] { handle_control_request(*g_recording->state); };
  const auto handle_two = [] {
    handle_control_request(*g_other);
    g_in_progress = !is_acknowledged(*g_recording);
    if (g_in_progress) return;
    request(*g_recording, MailboxCommand::kMark, "second");
    handle_control_request(*g_other);
  };
  unsigned steps = 0;
  for (; !g_in_progress; ++steps) {
    StreamFixture recording;
    reset_mailbox();
    ThreadState other{};
    REQUIRE(other.stream.open(g_trace, StreamId{2}, 4096) == nullptr);
    g_recording = &recording;
    g_other = &other;
    request(recording, MailboxCommand::kMark, "first");
    REQUIRE(interrupt_after(steps, handle, handle_two));
    handle_control_request(other);
    INFO("interrupted after " << steps << " instructions");
    REQUIRE(count_marks(recording) == recording.header().mailbox.request);
  }
  CHECK(steps > 10);
  g_settings.snapshots = snapshots_before;
}
#endif

TEST_CASE("A mark has the request's text, truncated to the mailbox whatever length the request claims") {
  StreamFixture recording;
  reset_mailbox();
  const std::string text(sizeof FileHeader::Mailbox::text, 'x');
  request(recording, MailboxCommand::kMark, "halfway");
  handle_control_request(*recording.state);
  CHECK(last_mark(recording) == "halfway");
  request(recording, MailboxCommand::kMark, text);
  recording.header().mailbox.text_bytes = ~0u;
  handle_control_request(*recording.state);
  CHECK(last_mark(recording) == text);
  CHECK(is_acknowledged(recording));
}

TEST_CASE("A request with an unknown command is acknowledged and changes nothing") {
  StreamFixture recording;
  reset_mailbox();
  request(recording, static_cast<MailboxCommand>(77));
  handle_control_request(*recording.state);
  CHECK(is_acknowledged(recording));
  CHECK(recording.records().empty());
  CHECK_FALSE(paused());
}

TEST_CASE("A request for a snapshot is not acknowledged before one is taken") {
  StreamFixture recording;
  reset_mailbox();
  recording.state->depth = 1;  // a signal handler's event, which takes no snapshot
  request(recording, MailboxCommand::kSnapshot);
  handle_control_request(*recording.state);
  CHECK_FALSE(is_acknowledged(recording));
  recording.state->depth = 0;
  handle_control_request(*recording.state);
  CHECK(is_acknowledged(recording));
}

TEST_CASE("The first request to a new trace is handled, however many requests the previous trace had") {
  {
    StreamFixture parent;
    reset_mailbox();
    request(parent, MailboxCommand::kMark, "parent's");
    handle_control_request(*parent.state);
  }
  // A forked child begins its own trace. The first request is there before the child checks.
  StreamFixture child;
  reset_mailbox();
  request(child, MailboxCommand::kPause);
  handle_control_request(*child.state);
  CHECK(is_acknowledged(child));
  CHECK(child.ops() == std::vector{Op::kPause});
  set_paused(*child.state, false);
}
