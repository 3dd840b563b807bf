// heapprof control: its requests to a recorder, which a thread of the test simulates, and its messages without one.
#include <catch2/catch.hpp>

#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/running_trace.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::test;

namespace {

struct Request {
  MailboxCommand command;
  std::string text;
  friend bool operator==(const Request&, const Request&) = default;
};

/// Acknowledges requests as the recorder does, and stores them.
class Recorder {
 public:
  explicit Recorder(FileHeader& header) : box_(header.mailbox), thread_([this] { serve(); }) {}
  ~Recorder() { stop(); }
  const std::vector<Request>& stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
    return requests_;
  }

 private:
  void serve() {
    while (!stopped_) {
      const std::uint32_t request = __atomic_load_n(&box_.request, __ATOMIC_ACQUIRE);
      if (request == box_.acknowledged) {
        std::this_thread::yield();
        continue;
      }
      const auto command = static_cast<MailboxCommand>(box_.command);
      requests_.push_back({command, std::string(box_.text, box_.text_bytes)});
      if (command == MailboxCommand::kPause) __atomic_store_n(&box_.paused, 1u, __ATOMIC_RELEASE);
      if (command == MailboxCommand::kResume) __atomic_store_n(&box_.paused, 0u, __ATOMIC_RELEASE);
      __atomic_store_n(&box_.acknowledged, request, __ATOMIC_RELEASE);
    }
  }

  FileHeader::Mailbox& box_;
  std::vector<Request> requests_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace

TEST_CASE("control pauses, resumes and marks, and prints that the recorder has done it") {
  RunningTrace trace;
  Recorder recorder(trace.header());
  const std::string patience = "60";
  const auto state = [&] { return run({"control", trace.path(), "status", "--json"}).at("/state"); };
  CHECK(run({"control", trace.path(), "pause", "--wait", patience}).out == "paused\n");
  CHECK(state() == "paused");
  const Outcome resumed = run({"control", trace.path(), "resume", "--wait", patience, "--json"});
  CHECK(resumed.status == 0);
  CHECK(resumed.at("/state") == "recording");
  CHECK(state() == "recording");
  const Outcome marked = run({"control", trace.path(), "mark", "first page", "--wait", patience});
  CHECK(marked.status == 0);
  CHECK(marked.out == "marked\n");
  const std::vector<Request> expected = {
      {MailboxCommand::kPause, ""}, {MailboxCommand::kResume, ""}, {MailboxCommand::kMark, "first page"}};
  CHECK(recorder.stop() == expected);
}

TEST_CASE("control finds the trace of a process by --pid") {
  RunningTrace trace;
  const Outcome status = run({"control", "--pid", std::to_string(::getpid()), "status", "--json"});
  CHECK(status.status == 0);
  CHECK(status.at("/trace") == trace.path());
  CHECK(status.number("/pid") == static_cast<std::uint64_t>(::getpid()));
  CHECK(status.at("/state") == "recording");
  CHECK(status.number("/trace_bytes") == read_file(trace.path()).size());
  CHECK(run({"control", "--pid", "4194305", "status"}).status == 1);  // above the kernel's highest pid
}

TEST_CASE("a request that is not read stays pending, and the next one is not sent") {
  RunningTrace trace;
  const Outcome first = run({"control", trace.path(), "pause", "--wait", "0"});
  CHECK(first.status == 1);
  CHECK(first.out == "");
  CHECK(trace.header().mailbox.request == 1);
  CHECK(run({"control", trace.path(), "status", "--json"}).at("/request_pending") == "true");
  const Outcome second = run({"control", trace.path(), "mark", "late", "--wait", "0"});
  CHECK(second.status == 1);
  CHECK(second.err != first.err);
  CHECK(trace.header().mailbox.request == 1);
  CHECK(trace.header().mailbox.command == static_cast<std::uint32_t>(MailboxCommand::kPause));
}

TEST_CASE("control of a recording that has ended or stopped is an error; reading its status is not") {
  const KnownTrace ended;
  CHECK(run({"control", ended.path(), "pause"}).status == 1);
  const Outcome status = run({"control", ended.path(), "status", "--json"});
  CHECK(status.status == 0);
  CHECK(status.at("/state") == "ended");
  RunningTrace stopped;
  stopped.header().end_kind = EndKind::kStopped;
  CHECK(run({"control", stopped.path(), "status", "--json"}).at("/state") == "stopped");
  CHECK(run({"control", stopped.path(), "resume"}).status == 1);
  CHECK(stopped.header().mailbox.request == 0);
  CHECK(run({"control", kNoFile, "status"}).status == 1);
}

TEST_CASE("control of a compacted trace is an error, and the message has the reason") {
  const KnownTrace trace;
  const TemporaryFile compacted;
  REQUIRE(run({"compact", trace.path(), "-o", compacted.path()}).status == 0);
  for (const char* action : {"pause", "status"}) {
    INFO(action);
    const Outcome outcome = run({"control", compacted.path(), action});
    CHECK(outcome.status == 1);
    CHECK(outcome.err.find("compacted trace") != std::string::npos);
    CHECK(outcome.err.find("damaged") == std::string::npos);
  }
}

TEST_CASE("control without an action, with an unknown one or too many arguments is a wrong command line") {
  RunningTrace trace;
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{trace.path()},
                                             {trace.path(), "stop"},
                                             {trace.path(), "pause", "now"},
                                             {trace.path(), "mark"},
                                             {trace.path(), "mark", std::string(257, 'x')},
                                             {"--pid", "1"},
                                             {"--pid", "one", "status"},
                                             {trace.path(), "status", "--wait", "-1"}}) {
    std::vector<std::string> words = {"control"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    INFO(arguments.back());
    const Outcome outcome = run(words);
    CHECK(outcome.status == 2);
    CHECK(outcome.err != "");
  }
  CHECK(trace.header().mailbox.request == 0);
}
