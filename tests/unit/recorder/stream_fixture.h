// A recording without hooks: the recorder's global trace, and a thread's state with a stream in it.
#pragma once

#include <catch2/catch.hpp>
#include <memory>

#include "preload/recorder/clock/clock.h"
#include "preload/recorder/process/fork_watch.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/recorder/trace/recording.h"
#include "tests/unit/recorder/read_back.h"

namespace heapprof::test {

struct StreamFixture {
  StreamFixture() {
    recorder::g_clock = recorder::TickClock();
    recorder::g_clock.start();
    recorder::g_pause = 0;
    recorder::clear_guard_bit(recorder::kGuardPaused | recorder::kGuardStopped);
    REQUIRE(recorder::g_trace.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
    recorder::g_trace.publish_header();
    REQUIRE(state->stream.open(recorder::g_trace, StreamId{1}, 65536) == nullptr);
  }
  ~StreamFixture() { recorder::g_trace.forget(); }

  FileHeader& header() const { return *recorder::g_trace.header(); }

  /// The records of the trace, without block starts.
  std::vector<Slot> records() const {
    std::vector<Slot> result = read_stream(folder / "t", StreamId{1}).records;
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i].op() != Op::kBlockStart) continue;
      result.erase(result.begin() + static_cast<std::ptrdiff_t>(i));
      --i;
    }
    return result;
  }
  std::vector<Op> ops() const {
    std::vector<Op> result;
    for (const Slot& slot : records()) result.push_back(slot.op());
    return result;
  }

  Folder folder;
  std::unique_ptr<recorder::ThreadState> state = std::make_unique<recorder::ThreadState>();
};

}  // namespace heapprof::test
