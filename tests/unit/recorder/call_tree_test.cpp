// The call tree: nodes are found again, in lists and in the table of children, also while several threads add them
// and threads that double the table die.
#include "preload/recorder/call_tree/call_tree.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "preload/sys/own_mappings.h"
#include "tests/support/require_each.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

/// One of the nodes without a parent: all but a few are in the table.
NodeId node(std::uint64_t number, Stream& stream) {
  return g_call_tree.intern(NodeId::kNone, ModuleId{2}, number, 0, stream);
}

constexpr std::uint32_t kFirstSlots = ChildTable::kFirstSlots;
/// The table doubles with the node after this number of them.
constexpr std::uint32_t kFirstGrowth = CallTree::kMaxListed + (kFirstSlots - 1) / 8 * 5;

/// Adds nodes and checks that each is found again under its number.
void add_and_find(std::uint64_t first, std::uint64_t end, Stream& stream) {
  std::uint64_t lost = 0;
  for (std::uint64_t number = first; number < end; ++number)
    if (const NodeId id = node(number, stream); id == NodeId::kNone || node(number, stream) != id) ++lost;
  CHECK(lost == 0);
}

/// The addresses of the tables with that many slots that are mapped. Those of other test cases stay mapped.
std::vector<std::uint64_t> mapped_tables(std::uint32_t slots) {
  std::vector<std::uint64_t> tables;
  for (std::size_t slot = 0; slot < sys::own_mapping_slots(); ++slot)
    if (const sys::OwnMapping mapping = sys::own_mapping(slot);
        mapping.begin != 0 && mapping.bytes == ChildTable::table_bytes(slots))
      tables.push_back(mapping.begin);
  return tables;
}

}  // namespace

TEST_CASE("The table grows, and nodes keep their numbers") {
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  add_and_find(1, kFirstSlots * 20, state->stream);
}

TEST_CASE("The pages of a table that was replaced are freed, except the first one") {
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  const std::vector<std::uint64_t> before = mapped_tables(kFirstSlots);
  add_and_find(1, kFirstGrowth + 10, state->stream);
  std::uint64_t replaced = 0;
  for (const std::uint64_t table : mapped_tables(kFirstSlots))
    if (std::find(before.begin(), before.end(), table) == before.end()) replaced = table;
  REQUIRE(replaced != 0);
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t bytes = ChildTable::table_bytes(kFirstSlots);
  std::vector<unsigned char> pages((bytes + page_bytes - 1) / page_bytes);
  REQUIRE(mincore(reinterpret_cast<void*>(replaced), bytes, pages.data()) == 0);
  const auto is_resident = [](unsigned char page) { return (page & 1) != 0; };
  CHECK(is_resident(pages.front()));
  CHECK(std::count_if(pages.begin(), pages.end(), is_resident) == 1);
}

TEST_CASE("A node is found again, and defined once when one thread adds") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 65536) == nullptr);
  g_call_tree.reset();
  constexpr unsigned kNodes = 100'000;  // the table doubles several times
  std::vector<NodeId> ids;
  for (unsigned i = 0; i < kNodes; ++i)
    ids.push_back(g_call_tree.intern(NodeId{i % 77}, ModuleId{2 + i % 3}, i, i % 2, stream));
  CHECK(g_call_tree.size() == kNodes);
  for (unsigned i = 0; i < kNodes; ++i)
    require_each(g_call_tree.intern(NodeId{i % 77}, ModuleId{2 + i % 3}, i, i % 2, stream) == ids[i]);
  CHECK(g_call_tree.size() == kNodes);
  CHECK(g_call_tree.intern(NodeId{1}, ModuleId{2}, 0, 0, stream) != ids[0]);

  unsigned defined = 0;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) {
    if (slot.op() != Op::kNode || defined == kNodes) continue;
    require_each(slot.node == raw(ids[defined]));
    require_each((slot.size() & 0xffffffff) == defined % 77);
    require_each(slot.size() >> 32 == 2 + defined % 3);
    require_each(slot.address == defined);
    ++defined;
  }
  CHECK(defined == kNodes);
}

TEST_CASE("Children are found in the list of a node with few and in the table of a node with many") {
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  constexpr unsigned kMany = CallTree::kMaxListed * 3;
  std::vector<NodeId> ids;
  NodeId parent = NodeId::kNone;
  for (unsigned children = 1; children <= kMany; ++children) {
    for (unsigned i = 0; i < children; ++i) {
      ids.push_back(g_call_tree.intern(parent, ModuleId{2}, i, 0, state->stream));
      require_each(raw(ids.back()) == ids.size());
    }
    parent = ids.back();
  }
  // Equal offsets in another module, with a flag and in anonymous code are other nodes.
  for (const ModuleId module : {ModuleId{2}, ModuleId{3}, ModuleId::kAnonymous})
    for (const std::uint32_t flag : {0u, std::uint32_t{kNodeByFramePointer}})
      if (module != ModuleId{2} || flag != 0)
        ids.push_back(g_call_tree.intern(ids[0], module, 0, flag, state->stream));
  CHECK(g_call_tree.size() == ids.size());
  std::size_t next = 0;
  parent = NodeId::kNone;
  for (unsigned children = 1; children <= kMany; ++children) {
    for (unsigned i = 0; i < children; ++i)
      require_each(g_call_tree.intern(parent, ModuleId{2}, i, 0, state->stream) == ids[next++]);
    parent = ids[next - 1];
  }
  CHECK(g_call_tree.size() == ids.size());
}

TEST_CASE("Threads that add the same nodes at once get the same numbers, or duplicates with equal content") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  g_call_tree.reset();
  // Every node but the first has a few siblings, and every hundredth is a child of the first.
  constexpr unsigned kNodes = 50'000;
  const auto parent_of = [](unsigned i) { return i % 100 == 0 ? 0 : (i - 1) / 3; };
  std::vector<std::vector<NodeId>> ids(4);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stream stream;
      if (stream.open(file, StreamId{t + 1}, 65536) != nullptr) return;
      for (unsigned i = 0; i < kNodes; ++i)
        ids[t].push_back(
            g_call_tree.intern(i == 0 ? NodeId::kNone : ids[t][parent_of(i)], ModuleId{2}, i, 0, stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> content(g_call_tree.size() + 1, ~std::uint64_t{0});
  std::vector<std::uint32_t> parents(content.size());
  for (unsigned t = 0; t < 4; ++t)
    for (const Slot& slot : read_stream(folder / "t", StreamId{t + 1}).records)
      if (slot.op() == Op::kNode) {
        content.at(slot.node) = slot.address;
        parents.at(slot.node) = static_cast<std::uint32_t>(slot.size());
      }
  for (unsigned t = 0; t < 4; ++t) {
    REQUIRE(ids[t].size() == kNodes);
    for (unsigned i = 0; i < kNodes; ++i) {
      require_each(content.at(raw(ids[t][i])) == i);
      if (i != 0) require_each(content.at(parents.at(raw(ids[t][i]))) == parent_of(i));
    }
  }
}

TEST_CASE("Threads that double the table while they add the same nodes find each node with its own content") {
  Folder folder;
  TraceStorage file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  g_call_tree.reset();
  constexpr unsigned kNodes = 40'000;
  constexpr unsigned kThreads = 4;
  const auto offset_of = [](unsigned t, unsigned i) { return (i + t * (kNodes / kThreads)) % kNodes; };
  std::vector<std::vector<NodeId>> ids(kThreads);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Stream stream;
      if (stream.open(file, StreamId{t + 1}, 65536) != nullptr) return;
      for (unsigned i = 0; i < kNodes; ++i)
        ids[t].push_back(g_call_tree.intern(NodeId{1 + i % 2}, ModuleId{2}, offset_of(t, i), 0, stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> content(g_call_tree.size() + 1, ~std::uint64_t{0});
  std::vector<std::uint32_t> parents(content.size());
  for (unsigned t = 0; t < kThreads; ++t)
    for (const Slot& slot : read_stream(folder / "t", StreamId{t + 1}).records)
      if (slot.op() == Op::kNode) {
        content.at(slot.node) = slot.address;
        parents.at(slot.node) = static_cast<std::uint32_t>(slot.size());
      }
  for (unsigned t = 0; t < kThreads; ++t) {
    REQUIRE(ids[t].size() == kNodes);
    for (unsigned i = 0; i < kNodes; ++i) {
      require_each(content.at(raw(ids[t][i])) == offset_of(t, i));
      require_each(parents.at(raw(ids[t][i])) == 1 + i % 2);
    }
  }
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

/// A thread that adds nodes and stops while it doubles the table, until the end of this object's lifetime. It counts
/// as alive, as a main thread that has ended by pthread_exit, whose id exists until the process ends.
class StoppedGrowth {
 public:
  /// `first`: the number of the node that makes the table double, or of one shortly before.
  explicit StoppedGrowth(std::uint64_t first) {
    next_ = first;
    stopped_ = interrupted_ = finished_ = false;
    thread_ = std::thread([] {
      if (ThreadState* const its = attach_thread()) {
        stream_ = &its->stream;
        const auto stop_there = [] {
          interrupted_ = true;
          stopped_ = true;
          while (!finished_) sys::call(SYS_sched_yield);
        };
        // Nothing but doubling takes so many instructions: the thread's own block is empty.
        for (int i = 0; i < 5 && !stopped_; ++i)
          interrupt_after(
              10'000, [] { node(next_++, *stream_); }, stop_there);
      }
      stopped_ = true;
    });
    while (!stopped_) sys::call(SYS_sched_yield);
  }
  ~StoppedGrowth() {
    finished_ = true;
    thread_.join();
  }
  StoppedGrowth(const StoppedGrowth&) = delete;
  StoppedGrowth& operator=(const StoppedGrowth&) = delete;

  /// Whether the thread has stopped there.
  static bool interrupted() { return interrupted_; }

 private:
  static inline std::uint64_t next_;
  static inline Stream* stream_;
  static inline std::atomic<bool> stopped_, interrupted_, finished_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("A thread that dies while it doubles the table does not prevent others from doing it") {
  const ThreadFixture recording(65536);
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
    for (int i = 0; i < 5; ++i)
      interrupt_after(
          10'000, [&] { node(next++, its->stream); }, die_there);
  });
  REQUIRE(died);
  add_and_find(next, next + kFirstSlots * 5, state->stream);
}

TEST_CASE(
    "A thread that has stopped while it doubles the table, and counts as alive, does not prevent others from it") {
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  std::uint64_t next = 1;
  while (g_call_tree.size() < kFirstGrowth - 1) node(next++, state->stream);
  const StoppedGrowth stopped(next);
  add_and_find(next + 10, next + kFirstSlots * 5, state->stream);
  CHECK(StoppedGrowth::interrupted());
}

TEST_CASE("Threads that find little room while another one doubles the table make no table of their own") {
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  std::uint64_t next = 1;
  while (g_call_tree.size() < kFirstGrowth - 1) node(next++, state->stream);
  const std::size_t second = mapped_tables(kFirstSlots * 2).size();
  const std::size_t third = mapped_tables(kFirstSlots * 4).size();
  const StoppedGrowth stopped(next);
  REQUIRE(StoppedGrowth::interrupted());
  REQUIRE(mapped_tables(kFirstSlots * 2).size() == second + 1);
  constexpr unsigned kThreads = 3;
  std::atomic<unsigned> finished = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ThreadState* const its = attach_thread();
      if (its == nullptr) return;
      for (std::uint64_t i = 0; i < kFirstSlots; ++i) node(next + 10 + i * kThreads + t, its->stream);
      ++finished;
    });
  }
  for (std::thread& thread : threads) thread.join();
  REQUIRE(finished == kThreads);
  CHECK(mapped_tables(kFirstSlots * 2).size() == second + 1);
  CHECK(mapped_tables(kFirstSlots * 4).size() == third + 1);
}

TEST_CASE("A thread that dies while system calls are forbidden does not prevent others from doubling the table") {
  const ThreadFixture recording(65536);
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
      interrupt_after(
          step, [&] { node(next++, its->stream); }, die_there);
      sys::g_forbidden = 0;
    });
    if (!died) break;
    ++deaths;
  }
  CHECK(deaths > 10);
  REQUIRE(next < kFirstSlots / 4 * 3);  // until here the table was not full enough for a second attempt
  add_and_find(next, next + kFirstSlots * 5, state->stream);
}

TEST_CASE("A child that a signal handler adds, too, while it is added has one number, and no other child is lost") {
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  Stream of_handler;
  REQUIRE(of_handler.open(g_trace, StreamId{100}, 65536) == nullptr);
  static Stream* stream;
  static NodeId parent, child, other;
  stream = &of_handler;
  parent = NodeId::kNone;
  const auto add_in_handler = [] {
    other = g_call_tree.intern(parent, ModuleId{2}, 2, 0, *stream);
    child = g_call_tree.intern(parent, ModuleId{2}, 1, 0, *stream);
  };
  for (unsigned steps = 0;; ++steps) {
    NodeId added = NodeId::kNone;
    const auto add = [&] { added = g_call_tree.intern(parent, ModuleId{2}, 1, 0, state->stream); };
    if (!interrupt_after(steps, add, add_in_handler)) {
      CHECK(steps > 10);
      return;
    }
    INFO("interrupted after " << steps << " instructions");
    REQUIRE(added != NodeId::kNone);
    REQUIRE(added == child);
    REQUIRE(g_call_tree.intern(parent, ModuleId{2}, 1, 0, state->stream) == child);
    REQUIRE(g_call_tree.intern(parent, ModuleId{2}, 2, 0, state->stream) == other);
    parent = child;
  }
}
#endif
