// Traces whose header is not complete yet.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/trace/follower.h"
#include "analyzer/trace/mailbox.h"
#include "analyzer/trace/trace_file.h"
#include "tests/support/running_trace.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::trace;
using namespace std::chrono_literals;

namespace {

/// What `read` says against a trace that `begin` makes and that `complete`, the recorder, completes meanwhile. A
/// reader waits for one second at most. The scheduler may run the recorder too late for that: then all start again.
template <typename Begin, typename Complete, typename Read>
std::string refusal_of(Begin begin, Complete complete, Read read) {
  using Clock = std::chrono::steady_clock;
  std::string refusal;
  for (int attempt = 0; attempt != 100; ++attempt) {
    const Clock::time_point start = Clock::now();
    begin();
    Clock::time_point completed;
    std::thread recorder([&] {
      complete();
      completed = Clock::now();
    });
    refusal.clear();
    try {
      read();
    } catch (const TraceError& error) {
      refusal = error.what();
    }
    recorder.join();
    if (refusal.empty() || completed - start < 900ms) break;
  }
  return refusal;
}

}  // namespace

TEST_CASE("A trace that is just being created is waited for, in each of its states") {
  test::TraceBuilder trace;
  trace.stream().thread(1, "main");
  const std::vector<std::uint8_t> whole = trace.bytes();
  std::vector<std::uint8_t> without_magic = whole;
  std::fill_n(without_magic.begin(), sizeof kFileMagic, std::uint8_t{0});
  const std::array<std::vector<std::uint8_t>, 3> states = {
      {{}, std::vector<std::uint8_t>(4096, 0), {without_magic.begin(), without_magic.begin() + 4096}}};
  for (const std::vector<std::uint8_t>& state : states) {
    const test::TemporaryFile file;
    const std::string refusal = refusal_of([&] { test::TraceBuilder::write_bytes(file.path(), state); },
                                           [&] {
                                             std::this_thread::sleep_for(50ms);
                                             test::TraceBuilder::write_bytes(file.path(), without_magic);
                                             std::this_thread::sleep_for(50ms);
                                             test::TraceBuilder::write_bytes(file.path(), whole);
                                           },
                                           [&] { const TraceFile opened(file.path()); });
    CHECK(refusal == "");
  }
}

TEST_CASE("A program that has just started is followed, and can be controlled") {
  const bool is_followed = GENERATE(true, false);
  std::optional<test::RunningTrace> trace;
  unsigned char magic[sizeof kFileMagic] = {};
  bool runs = false;
  const std::string refusal = refusal_of(
      [&] {
        trace.emplace();
        std::memcpy(magic, trace->header().magic, sizeof magic);
        std::memset(trace->header().magic, 0, sizeof magic);
      },
      [&] {
        std::this_thread::sleep_for(50ms);
        std::memcpy(trace->header().magic, magic, sizeof magic);
      },
      [&] {
        runs = is_followed ? !Follower(trace->path()).ended()
                           : Mailbox(trace->path()).recorder() == RecorderState::kRecording;
      });
  CHECK(refusal == "");
  CHECK(runs);
}
