// What is recorded of reallocations.
#include <catch2/catch.hpp>
#include <vector>

#include "preload/arch/arch.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/trace/recording.h"
#include "preload/unwind/unwinder.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

TEST_CASE("A realloc that fails while recording is paused is recorded without size and stack") {
  REQUIRE(unwind::start({.max_depth = 64, .shadow_stack = true}));
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  const State state_before = g_state;
  g_state = State::kOn;
  alignas(16) static const int block = 0;
  const arch::EntryRegisters entry = arch::entry_registers();
  const auto fail = [&] {
    REQUIRE(realloc_begin(&block, entry));
    AllocatorCall call;
    call.done();
    realloc_end(&block, nullptr, 1'000, entry, call);
  };
  fail();
  g_pause = 1;
  fail();
  g_pause = 0;
  g_state = state_before;
  std::vector<Slot> failures;
  for (const Slot& slot : read_stream(recording.folder / "t", state->stream.id()).records)
    if (slot.op() == Op::kReallocFailed) failures.push_back(slot);
  REQUIRE(failures.size() == 2);
  CHECK(failures[0].size() == 1'000);
  CHECK(failures[0].node != 0);
  CHECK(failures[1].size() == 0);
  CHECK(failures[1].node == 0);
}
