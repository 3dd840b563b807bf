// The call tree's table while threads that double it die.
#include "preload/recorder/call_tree/call_tree.h"

#include "tests/unit/recorder/recording.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

NodeId node(std::uint64_t number, Stream& stream) {
  return g_call_tree.child(NodeId::kNone, ModuleId{2}, number, 0, number * 0x9e3779b97f4a7c15, stream);
}

constexpr std::uint32_t kFirstSlots = 4096;
constexpr std::uint32_t kFirstGrowth = (kFirstSlots - 1) / 8 * 5;

/// Nodes are found again under the number that they got, however many there are.
void add_and_find(std::uint64_t first, std::uint64_t end, Stream& stream) {
  std::uint64_t lost = 0;
  for (std::uint64_t number = first; number < end; ++number)
    if (const NodeId id = node(number, stream); id == NodeId::kNone || node(number, stream) != id) ++lost;
  CHECK(lost == 0);
}

}  // namespace

TEST_CASE("The table grows, and nodes keep their numbers") {
  const Recording recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  add_and_find(1, kFirstSlots * 20, state->stream);
}

#ifdef HEAPPROF_SINGLE_STEP
TEST_CASE("A thread that dies while it doubles the table does not keep others from it") {
  const Recording recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  std::uint64_t next = 1;
  while (g_call_tree.size() < kFirstGrowth - 1) node(next++, state->stream);
  static volatile bool died;
  died = false;
  run_to_death([&] {
    ThreadState* const its = attach_thread();
    if (its == nullptr) return;
    // Nothing but doubling takes so many instructions: the thread's own block is empty.
    const auto die_there = [] {
      died = true;
      die();
    };
    for (int i = 0; i < 5; ++i) interrupt_after(10'000, [&] { node(next++, its->stream); }, die_there);
  });
  REQUIRE(died);
  add_and_find(next, next + kFirstSlots * 5, state->stream);
}

TEST_CASE("A thread that dies while system calls are forbidden does not keep others from doubling the table") {
  const Recording recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  std::uint64_t next = 1;
  while (g_call_tree.size() <= kFirstGrowth) node(next++, state->stream);
  static volatile bool died;
  unsigned deaths = 0;
  for (unsigned step = 0;; ++step) {
    died = false;
    run_to_death([&] {
      ThreadState* const its = attach_thread();
      if (its == nullptr) return;
      const auto die_there = [] {
        died = true;
        sys::g_forbidden = 0;  // the kernel refused the restriction
        die();
      };
      sys::g_forbidden = 1;
      interrupt_after(step, [&] { node(next++, its->stream); }, die_there);
      sys::g_forbidden = 0;
    });
    if (!died) break;
    ++deaths;
  }
  CHECK(deaths > 10);
  REQUIRE(next < kFirstSlots / 4 * 3);  // until here the table was not full enough for a second attempt
  add_and_find(next, next + kFirstSlots * 5, state->stream);
}
#endif
