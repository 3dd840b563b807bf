// Threads that come and go: each takes over the state, and in the middle of its block the stream, of one that has
// died.
#include <catch2/catch.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/thread/thread_state.h"
#include "tests/unit/recorder/read_back.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

TEST_CASE("threads that come and go hand their streams on, and each event stays its thread's") {
  constexpr unsigned kWaves = 12;
  constexpr unsigned kAtOnce = 4;
  constexpr unsigned kEvents = 700;  // several blocks, and a part of one
  const Folder folder;
  const Settings before = g_settings;
  g_settings.block_bytes = 4096;
  REQUIRE(g_trace_file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  g_trace_file.publish_header();
  g_call_tree.reset();
  std::atomic<unsigned> failures{0};
  for (unsigned wave = 0; wave < kWaves; ++wave) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([&failures, number = wave * kAtOnce + i] {
        ThreadState* const state = attach_thread();
        if (state == nullptr) {
          ++failures;
          return;
        }
        for (unsigned event = 0; event < kEvents; ++event) {
          const NodeId node = g_call_tree.child(NodeId::kNone, ModuleId{2}, event % 50, 0,
                                                event % 50 * 0x9e3779b97f4a7c15, state->stream);
          if (!state->stream.append(Op::kAlloc, event, number, event, raw(node), 0)) ++failures;
        }
        // What a thread has written is seen by whom the kernel tells that it is dead: its stores come before the
        // kernel's, which takes the number out of its table behind several full barriers (do_exit), and who finds it
        // gone comes back by a return from the kernel. ThreadSanitizer knows nothing of that, so it is told by a
        // release of the word that attach_thread() acquires first. It changes nothing there: the word stays as it is,
        // and this thread lives.
        __atomic_fetch_add(&state->claim, 0, __ATOMIC_RELEASE);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  g_settings = before;
  CHECK(failures == 0);

  unsigned streams = 0;
  std::vector<unsigned> events(kWaves * kAtOnce);
  for (std::uint32_t id = 1;; ++id) {
    const Read read = read_stream(folder / "t", StreamId{id});
    if (read.records.empty()) break;
    ++streams;
    bool begins = false;
    std::uint64_t owner = 0;
    for (const Slot& slot : read.records) {
      if (slot.op() == Op::kText && static_cast<TextKind>(slot.node) == TextKind::kThread) begins = true;
      if (slot.op() != Op::kAlloc) continue;
      if (begins) owner = slot.address;
      begins = false;
      REQUIRE(slot.address == owner);
      REQUIRE(slot.size() == events.at(owner));
      ++events[owner];
    }
  }
  CHECK(streams < kWaves * kAtOnce / 2);
  for (const unsigned count : events) CHECK(count == kEvents);
  forget_threads();
  g_trace_file.abandon();
}
