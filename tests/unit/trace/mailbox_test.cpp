// Control requests: what is written into the mailbox of a trace, and what becomes of a request. This process is the
// recorder.
#include "analyzer/trace/mailbox.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "common/trace_header.h"
#include "tests/support/running_trace.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"
#include "tests/support/unprivileged.h"

using namespace heapprof;
using namespace heapprof::trace;
using namespace std::chrono_literals;
using heapprof::test::RunningTrace;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

std::string text_of(const FileHeader::Mailbox& box) { return {box.text, box.text_bytes}; }

/// If it is set: the recorder acknowledges a request while its sender reads the clock, and the sender continues an
/// hour later.
FileHeader::Mailbox* g_box_of_late_sender = nullptr;

}  // namespace

// Replaces libc's in this test, also for std::chrono.
extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const long result = ::syscall(SYS_clock_gettime, clock, time);
  FileHeader::Mailbox* const box = g_box_of_late_sender;
  if (box != nullptr && clock == CLOCK_MONOTONIC && box->request != box->acknowledged) {
    box->acknowledged = box->request;
    time->tv_sec += 3600;
  }
  return static_cast<int>(result);
}

TEST_CASE("A request that the recorder acknowledges is done") {
  RunningTrace trace;
  FileHeader::Mailbox& box = trace.header().mailbox;
  Mailbox mailbox(trace.path());
  CHECK_FALSE(mailbox.request_pending());
  std::atomic<bool> returned = false;  // also if nothing was requested
  std::thread recorder([&] {
    while (__atomic_load_n(&box.request, __ATOMIC_ACQUIRE) == 0 && !returned) std::this_thread::yield();
    __atomic_store_n(&box.acknowledged, 1u, __ATOMIC_RELEASE);
  });
  const Mailbox::Answer answer = mailbox.send(MailboxCommand::kMark, "first page", 60s);
  returned = true;
  recorder.join();
  CHECK(answer == Mailbox::Answer::kDone);
  CHECK(box.request == 1);
  CHECK(box.command == static_cast<std::uint32_t>(MailboxCommand::kMark));
  CHECK(text_of(box) == "first page");
  CHECK_FALSE(mailbox.request_pending());
}

TEST_CASE("A request that was acknowledged in time is done, however late its sender continues") {
  RunningTrace trace;
  Mailbox mailbox(trace.path());
  g_box_of_late_sender = &trace.header().mailbox;
  const Mailbox::Answer answer = mailbox.send(MailboxCommand::kMark, "first page", 60s);
  g_box_of_late_sender = nullptr;
  CHECK(answer == Mailbox::Answer::kDone);
}

TEST_CASE("A request that is not acknowledged in time stays pending, and another one is not sent") {
  RunningTrace trace;
  FileHeader::Mailbox& box = trace.header().mailbox;
  Mailbox first(trace.path()), second(trace.path());
  CHECK(first.send(MailboxCommand::kMark, "early", 0ms) == Mailbox::Answer::kNotYet);
  CHECK(second.request_pending());
  CHECK(second.send(MailboxCommand::kPause, "late", 0ms) == Mailbox::Answer::kOccupied);
  CHECK(first.send(MailboxCommand::kPause, "late", 2ms) == Mailbox::Answer::kOccupied);
  CHECK(box.request == 1);
  CHECK(box.command == static_cast<std::uint32_t>(MailboxCommand::kMark));
  CHECK(text_of(box) == "early");
  __atomic_store_n(&box.acknowledged, 1u, __ATOMIC_RELEASE);
  CHECK_FALSE(first.request_pending());
  CHECK(second.send(MailboxCommand::kPause, "", 0ms) == Mailbox::Answer::kNotYet);
  CHECK(box.request == 2);
  CHECK(box.command == static_cast<std::uint32_t>(MailboxCommand::kPause));
  CHECK(text_of(box).empty());
}

TEST_CASE("A text is truncated to the mailbox, and what follows it stays") {
  static_assert(Mailbox::kMaxText == 256);
  RunningTrace trace;
  Mailbox mailbox(trace.path());
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i % 26);
  CHECK(mailbox.send(MailboxCommand::kMark, text, 0ms) == Mailbox::Answer::kNotYet);
  const FileHeader::Mailbox& box = trace.header().mailbox;
  CHECK(box.text_bytes == 256);
  CHECK(text_of(box) == text.substr(0, 256));
  CHECK(box.paused == 0);
}

TEST_CASE("The states are those that the recorder writes later") {
  RunningTrace trace;
  const Mailbox mailbox(trace.path());
  CHECK(mailbox.recorder() == RecorderState::kRecording);
  CHECK_FALSE(mailbox.paused());
  CHECK(mailbox.end_kind() == EndKind::kNone);
  trace.header().mailbox.paused = 1;
  trace.header().end_kind = EndKind::kStopped;
  CHECK(mailbox.paused());
  CHECK(mailbox.end_kind() == EndKind::kStopped);
  CHECK(mailbox.header().pid == static_cast<std::uint32_t>(::getpid()));
}

TEST_CASE("The states of a trace that may not be written are read, and a request is refused") {
  RunningTrace trace;
  trace.header().mailbox.paused = 1;
  REQUIRE(::chmod(trace.path().c_str(), 0444) == 0);
  const heapprof::test::Unprivileged user;
  Mailbox mailbox(trace.path());
  CHECK(mailbox.paused());
  CHECK_FALSE(mailbox.request_pending());
  CHECK_THROWS_WITH(
      mailbox.send(MailboxCommand::kPause, "", 0ms),
      trace.path() + ": cannot be opened for writing, which a control request needs: Permission denied");
  CHECK(trace.header().mailbox.request == 0);
}

TEST_CASE("What is no trace has no mailbox") {
  const TemporaryFile file;
  TraceBuilder::write_bytes(file.path(), std::vector<std::uint8_t>(sizeof(FileHeader), 'x'));
  CHECK_THROWS_AS(Mailbox(file.path()), TraceError);
  CHECK_THROWS_AS(Mailbox("/dev/null/none"), TraceError);
}

TEST_CASE("The trace of a process is found while the process records to it") {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  CHECK(trace_of_process(pid).empty());
  {
    const RunningTrace trace;
    CHECK(trace_of_process(pid) == trace.path());
  }
  CHECK(trace_of_process(pid).empty());
  {
    // Of an earlier process with the same id.
    RunningTrace earlier;
    ++earlier.header().process_start;
    earlier.header().checksum = header_checksum(earlier.header());
    CHECK(trace_of_process(pid).empty());
  }
  CHECK(trace_of_process(4'194'305).empty());  // above the kernel's highest number of a process
}
