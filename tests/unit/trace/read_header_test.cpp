// Traces whose header is not complete yet.
#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
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
    test::TraceBuilder::write_bytes(file.path(), state);
    std::thread recorder([&] {
      std::this_thread::sleep_for(50ms);
      test::TraceBuilder::write_bytes(file.path(), without_magic);
      std::this_thread::sleep_for(50ms);
      test::TraceBuilder::write_bytes(file.path(), whole);
    });
    std::string refusal;
    try {
      const TraceFile opened(file.path());
    } catch (const TraceError& error) {
      refusal = error.what();
    }
    recorder.join();
    CHECK(refusal == "");
  }
}

TEST_CASE("A program that has just started is followed, and can be controlled") {
  test::RunningTrace trace;
  unsigned char magic[sizeof kFileMagic];
  std::memcpy(magic, trace.header().magic, sizeof magic);
  std::memset(trace.header().magic, 0, sizeof magic);
  std::thread recorder([&] {
    std::this_thread::sleep_for(50ms);
    std::memcpy(trace.header().magic, magic, sizeof magic);
  });
  std::string refusal;
  bool runs = false;
  try {
    SECTION("followed") { runs = !Follower(trace.path()).ended(); }
    SECTION("controlled") { runs = Mailbox(trace.path()).recorder() == RecorderState::kRecording; }
  } catch (const TraceError& error) {
    refusal = error.what();
  }
  recorder.join();
  CHECK(refusal == "");
  CHECK(runs);
}
