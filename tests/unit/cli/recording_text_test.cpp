// Text about the end and the completeness of a recording.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/recording_text.h"

using namespace heapprof;
using namespace heapprof::cli;

TEST_CASE("the end of a recording is printed in words") {
  model::Profile profile;
  profile.recording.program = "/opt/known/demo";
  CHECK(command_of(profile).find("demo") != std::string::npos);
  profile.integrity.ended_by = "exit";
  profile.integrity.end_status = 3;
  CHECK(ending_of(profile).find('3') != std::string::npos);
  const std::string at_end = live_words(profile);
  profile.integrity.ended_by = "running";
  CHECK(live_words(profile) != at_end);
}

TEST_CASE("missing data is counted") {
  model::Integrity integrity;
  integrity.events_lost = 6;
  CHECK(losses_of(integrity) == "recorded data is missing: 6 events lost");
  integrity.bytes_damaged = 4096;
  CHECK(losses_of(integrity) == "recorded data is missing: 6 events lost, 4,096 bytes damaged");
  integrity.events_lost.reset();
  integrity.bytes_damaged = 0;
  CHECK(losses_of(integrity) == "recorded data is missing: unknown number of events lost");
}

TEST_CASE("the first sentences say what was recorded and whether it is whole") {
  model::Profile profile;
  profile.recording.pid = 804;
  profile.recording.duration_ns = 1'800'000'000;
  profile.heap.allocations = 1'000;
  profile.integrity.ended_by = "signal";
  profile.integrity.end_status = 9;
  CHECK(recorded_sentences(profile) ==
        "pid 804: ended by signal 9 (SIGKILL) after 1.80 s. Recording complete, 1,000 events.");
  profile.selection_text = "--thread worker";
  CHECK(recorded_sentences(profile) ==
        "pid 804: ended by signal 9 (SIGKILL) after 1.80 s. Recording complete, 1,000 events selected.");
  profile.selection_text.clear();
  profile.integrity.ended_by = "stopped";
  profile.integrity.stop_reason = "the disk is full";
  profile.integrity.complete = false;
  CHECK(
      recorded_sentences(profile) ==
      "pid 804: recording stopped after 1.80 s, the disk is full. Recording incomplete (see the end), 1,000 events.");
}

TEST_CASE("live blocks are named by the way in which the recording ended") {
  model::Profile profile;
  const auto words = [&](const char* ended_by, int status) {
    profile.integrity.ended_by = ended_by;
    profile.integrity.end_status = status;
    return live_words(profile);
  };
  CHECK(words("exit", 0) == "Live at the end");
  CHECK(words("signal", 9) == "Live when it was killed");
  CHECK(words("signal", 11) == "Live when SIGSEGV ended it");
  CHECK(words("signal", 40) == "Live when signal 40 ended it");
  CHECK(words("running", 0) == "Live now");
  CHECK(words("stopped", 0) == "Live when the recording stopped");
  CHECK(words("exec", 0) == "Live when it executed another program");
  CHECK(words("unknown", 0) == "Live at its last event");
  constexpr std::uint64_t kMs = 1'000'000;
  profile.recording.duration_ns = 100 * kMs;
  profile.slice = model::Slice{0, 20 * kMs};
  CHECK(words("signal", 9) == "Live at 20.0 ms");
  profile.slice = model::Slice{10 * kMs, 20 * kMs};
  CHECK(words("signal", 9) == "Allocated from 10.0 ms to 20.0 ms and live at 20.0 ms");
  profile.survivors_ns = 30 * kMs;
  CHECK(words("exit", 0) == "Allocated from 10.0 ms to 20.0 ms and still live at 30.0 ms");
  profile.survivors_ns = 100 * kMs;
  CHECK(words("exit", 0) == "Allocated from 10.0 ms to 20.0 ms and still live at the end");
  profile.slice = model::Slice{10 * kMs, 100 * kMs};
  profile.survivors_ns.reset();
  CHECK(words("signal", 9) == "Allocated from 10.0 ms on and live when it was killed");
}
