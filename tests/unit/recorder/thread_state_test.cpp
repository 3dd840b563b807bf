// Thread states: a stale `busy` is distinguished from that of a frame that will continue, and the states of dead
// threads are recovered and reused.
#include "preload/recorder/thread/thread_state.h"

#include <sys/vfs.h>
#include <ucontext.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/require_each.h"
#include "tests/support/system_calls.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

ThreadState g_busy;

std::uint64_t& word_above_busy() { return reinterpret_cast<std::uint64_t*>(to_address(g_busy.busy))[1]; }

/// Sets `busy` as the recorder does on entry: the return address of this call is above it.
[[gnu::noinline]] void enter_here() {
  g_busy.busy = arch::stack_pointer();
  asm volatile("" ::: "memory");
}

[[gnu::noinline]] bool stale_from_here() {
  const bool stale = busy_is_stale(g_busy, arch::stack_pointer());
  asm volatile("" ::: "memory");
  return stale;
}

/// Calls `action` with a stack pointer that is kBytes lower.
template <std::size_t kBytes, typename Action>
[[gnu::noinline]] void deeper(Action action) {
  char room[kBytes];
  asm volatile("" : : "r"(room) : "memory");
  action();
  asm volatile("" : : "r"(room) : "memory");
}

ucontext_t g_main, g_low_fiber, g_high_fiber;

void begin_fiber(ucontext_t& fiber, char* stack, std::size_t bytes, void (*body)()) {
  REQUIRE(getcontext(&fiber) == 0);
  fiber.uc_stack.ss_sp = stack;
  fiber.uc_stack.ss_size = bytes;
  fiber.uc_link = &g_main;
  makecontext(&fiber, body, 0);
}

/// Enters the recorder and is preempted there: a handler switches to another fiber.
[[gnu::noinline]] void be_inside_and_swap() {
  g_busy.busy = arch::stack_pointer();
  swapcontext(&g_low_fiber, &g_main);
  asm volatile("" ::: "memory");
}

volatile bool g_stale;

void low_fiber() {
  be_inside_and_swap();
  asm volatile("" ::: "memory");
}

void high_fiber() {
  g_stale = stale_from_here();
  asm volatile("" ::: "memory");
}

constexpr std::size_t kFiberBytes = 64 << 10;
alignas(4096) char g_fiber_stacks[2 * kFiberBytes];  // no gap between them

/// Calls `action` where traces are on a file system that does not promise that mapped pages can be rewritten. Returns
/// false if system calls cannot be replaced here.
template <typename Action>
bool on_fuse(Action&& action) {
  return with_replaced_calls(
      {SYS_fstatfs},
      [](SystemCall& call) {
        constexpr long kFuseMagic = 0x65735546;
        const long result = call.make();
        reinterpret_cast<struct statfs*>(call.arguments[1])->f_type = kFuseMagic;
        return result;
      },
      action);
}

using Blocks = std::vector<std::pair<Op, std::uint64_t>>;

/// The allocations and frees of a stream, with their addresses.
Blocks blocks_of(const ThreadFixture& recording, StreamId stream) {
  Blocks blocks;
  for (const Slot& slot : read_stream(recording.folder / "t", stream).records)
    if (slot.op() == Op::kAlloc || slot.op() == Op::kFree) blocks.emplace_back(slot.op(), slot.address);
  return blocks;
}

}  // namespace

TEST_CASE("busy is stale for a caller at the same address, or above it on the thread's own stack") {
  unwind::start_probing();
  SECTION("the same frame") {
    g_busy.busy = arch::stack_pointer();
    CHECK(busy_is_stale(g_busy, arch::stack_pointer()));
  }
  SECTION("the main thread") {
    deeper<300>(enter_here);
    CHECK(stale_from_here());
  }
  SECTION("the main thread, many pages above") {
    deeper<100'000>(enter_here);
    CHECK(stale_from_here());
  }
  SECTION("another thread") {
    run_to_death([] {
      deeper<9000>(enter_here);
      g_stale = stale_from_here();
    });
    CHECK(g_stale);
  }
}

TEST_CASE("busy is not stale for a handler that interrupted its owner") {
  unwind::start_probing();
  const auto inside = [] {
    g_busy.busy = arch::stack_pointer();
    deeper<300>([] { g_stale = stale_from_here(); });
    asm volatile("" ::: "memory");
  };
  g_stale = true;
  deeper<100>(inside);
  CHECK_FALSE(g_stale);
}

TEST_CASE("busy is stale if its return address was overwritten, or its memory is unmapped") {
  unwind::start_probing();
  auto* const page = static_cast<char*>(sys::map_private(4096));
  REQUIRE(page != nullptr);
  g_busy.busy = StackPointer{reinterpret_cast<std::uint64_t>(page) + 1024};
  void (*const code)() = enter_here;
  std::memcpy(&word_above_busy(), &code, sizeof code);
  const StackPointer below{to_address(g_busy.busy) - 512};
  CHECK_FALSE(busy_is_stale(g_busy, below));
  void* (*const elsewhere)(std::size_t) = std::malloc;
  std::memcpy(&word_above_busy(), &elsewhere, sizeof elsewhere);
  CHECK(busy_is_stale(g_busy, below));
  sys::unmap(page, 4096);
  CHECK(busy_is_stale(g_busy, below));
}

TEST_CASE("busy of a preempted fiber is not stale for callers on higher stacks") {
  unwind::start_probing();
  begin_fiber(g_low_fiber, g_fiber_stacks, kFiberBytes, low_fiber);
  REQUIRE(swapcontext(&g_main, &g_low_fiber) == 0);
  REQUIRE(g_busy.busy < arch::stack_pointer());
  SECTION("the thread's own") { CHECK_FALSE(stale_from_here()); }
  SECTION("another fiber's, which begins where the first one ends") {
    begin_fiber(g_high_fiber, g_fiber_stacks + kFiberBytes, kFiberBytes, high_fiber);
    g_stale = true;
    REQUIRE(swapcontext(&g_main, &g_high_fiber) == 0);
    CHECK_FALSE(g_stale);
  }
  SECTION("until its stack is overwritten") {
    word_above_busy() = 0;
    CHECK(stale_from_here());
    return;  // the fiber cannot continue
  }
  REQUIRE(swapcontext(&g_main, &g_low_fiber) == 0);
}

TEST_CASE("A higher address proves that busy is stale on the alternate stack only if busy is on it, too") {
  unwind::start_probing();
  auto* const memory = static_cast<char*>(sys::map_private(2 * kFiberBytes));
  REQUIRE(memory != nullptr);
  stack_t alternate{}, before{};
  alternate.ss_sp = memory;
  alternate.ss_size = 2 * kFiberBytes;
  REQUIRE(sigaltstack(&alternate, &before) == 0);
  struct sigaction action {
  }, action_before{};
  action.sa_flags = SA_ONSTACK;
  SECTION("busy is on a lower stack") {
    begin_fiber(g_low_fiber, g_fiber_stacks, kFiberBytes, low_fiber);
    REQUIRE(swapcontext(&g_main, &g_low_fiber) == 0);
    REQUIRE(to_address(g_busy.busy) < reinterpret_cast<std::uint64_t>(memory));
    action.sa_handler = [](int) { g_stale = stale_from_here(); };
    REQUIRE(sigaction(SIGUSR1, &action, &action_before) == 0);
    g_stale = true;
    raise(SIGUSR1);
    CHECK_FALSE(g_stale);
    REQUIRE(swapcontext(&g_main, &g_low_fiber) == 0);
  }
  SECTION("busy is on the alternate stack") {
    action.sa_handler = [](int) {
      deeper<5000>(enter_here);
      g_stale = stale_from_here();
    };
    REQUIRE(sigaction(SIGUSR1, &action, &action_before) == 0);
    g_stale = false;
    raise(SIGUSR1);
    CHECK(g_stale);
  }
  sigaction(SIGUSR1, &action_before, nullptr);
  sigaltstack(&before, nullptr);
  sys::unmap(memory, 2 * kFiberBytes);
}

TEST_CASE("If system calls are forbidden, busy is never considered stale") {
  unwind::start_probing();
  deeper<300>(enter_here);
  sys::g_forbidden = 1;
  const bool stale = stale_from_here();
  sys::g_forbidden = 0;
  CHECK_FALSE(stale);
}

TEST_CASE("A thread whose system calls are forbidden while it attaches can attach later") {
  const ThreadFixture recording(4096);
  bool attached = true, attached_later = false, has_own_state = false;
  const bool replaced = with_replaced_calls(
      {SYS_gettid},
      [](SystemCall& call) {
        // Another thread enters seccomp here.
        sys::g_forbidden = 1;
        return call.make();
      },
      [&] {
        attached = attach_thread() != nullptr;
        sys::g_forbidden = 0;
      });
  if (!replaced) return;
  CHECK_FALSE(attached);
  run_to_death([&] {
    const ThreadState* const state = attach_thread();
    attached_later = state != nullptr && state->owner() == sys::thread_id();
    has_own_state = t_local.state == state;
  });
  CHECK(attached_later);
  CHECK(has_own_state);
}

TEST_CASE("Streams of dead threads are reused, and each event keeps its thread") {
  constexpr unsigned kWaves = 12;
  constexpr unsigned kAtOnce = 4;
  constexpr unsigned kEvents = 700;  // several blocks, and a part of one
  const Folder folder;
  const Settings before = g_settings;
  g_settings.block_bytes = 4096;
  REQUIRE(g_trace.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  g_trace.publish_header();
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
          const NodeId node = g_call_tree.intern(NodeId::kNone, ModuleId{2}, event % 50, 0, state->stream);
          if (!state->stream.append(Op::kAlloc, Ticks{event}, number, event, raw(node), 0)) ++failures;
        }
        // The next owner sees all stores of this thread, because the kernel's barriers in do_exit come between them.
        // ThreadSanitizer does not see them, so this is a release of the word that attach_thread() acquires first.
        // It changes nothing: the value stays the same, and this thread is alive.
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
      require_each(slot.address == owner);
      require_each(slot.size() == events.at(owner));
      ++events[owner];
    }
  }
  CHECK(streams < kWaves * kAtOnce / 2);
  for (const unsigned count : events) CHECK(count == kEvents);
  forget_threads();
  g_trace.forget();
}

TEST_CASE("Where staging blocks are private memory, those of this thread and of dead ones are saved") {
  const bool executes = GENERATE(false, true);
  std::optional<ThreadFixture> recording;
  StreamId own = StreamId::kNone, of_dead = StreamId::kNone;
  std::vector<std::size_t> file_bytes;
  std::vector<PrivateBlocks> left;
  const bool replaced = on_fuse([&] {
    recording.emplace(65536);
    const auto note_file = [&] { file_bytes.push_back(bytes_of(recording->folder / "t").size()); };
    ThreadState* const state = attach_thread();
    own = state->stream.id();
    state->stream.append(Op::kAlloc, Ticks{5}, 0x1000, 16, 0, 0);
    run_to_death([&] {
      ThreadState* const dead = attach_thread();
      of_dead = dead->stream.id();
      dead->stream.append(Op::kAlloc, Ticks{6}, 0x2000, 16, 0, 0);
      __atomic_fetch_add(&dead->claim, 0, __ATOMIC_RELEASE);  // for ThreadSanitizer, as above
    });
    note_file();
    left.push_back(save_private_blocks(*state, executes));
    note_file();
    state->stream.append(Op::kFree, Ticks{7}, 0x1000, 0, 0, 0);
    left.push_back(save_private_blocks(*state, executes));
    note_file();
  });
  if (!replaced) return;
  for (const PrivateBlocks& each : left) {
    CHECK(each.failure == nullptr);
    CHECK_FALSE(each.of_unfinished_threads);
  }
  CHECK(file_bytes == std::vector<std::size_t>{kUnitBytes, kUnitBytes + 2 * 65536, kUnitBytes + 2 * 65536});
  CHECK(blocks_of(*recording, own) == Blocks{{Op::kAlloc, 0x1000}, {Op::kFree, 0x1000}});
  CHECK(blocks_of(*recording, of_dead) == Blocks{{Op::kAlloc, 0x2000}});
}

TEST_CASE("A private staging block is saved as a frame where system calls are forbidden") {
  std::optional<ThreadFixture> recording;
  StreamId own = StreamId::kNone;
  PrivateBlocks left;
  const bool replaced = on_fuse([&] {
    recording.emplace(65536);
    ThreadState* const state = attach_thread();
    own = state->stream.id();
    state->stream.append(Op::kAlloc, Ticks{5}, 0x1000, 16, 0, 0);
    state->stream.map_ahead();
    ++sys::g_forbidden;
    left = save_private_blocks(*state, false);
    --sys::g_forbidden;
  });
  if (!replaced) return;
  CHECK(left.failure == nullptr);
  CHECK(blocks_of(*recording, own) == Blocks{{Op::kAlloc, 0x1000}});
}

TEST_CASE("There are not many more states than threads, however many threads end") {
  constexpr unsigned kLiving = 40;
  constexpr unsigned kShort = 3000;
  const ThreadFixture recording(4096);
  std::atomic<unsigned> begun = 0, attached = 0;
  std::atomic<bool> end = false;
  std::vector<std::thread> living;
  for (unsigned i = 0; i < kLiving; ++i)
    living.emplace_back([&] {
      if (attach_thread() != nullptr) ++attached;
      ++begun;
      while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  while (begun != kLiving) std::this_thread::yield();
  CHECK(attached == kLiving);
  for (unsigned i = 0; i < kShort; ++i) run_to_death([] { attach_thread(); });
  unsigned states = 0;
  for (const ThreadState* state = first_thread_state(); state != nullptr; state = state->next) ++states;
  CHECK(states < 2 * kLiving);
  end = true;
  for (std::thread& thread : living) thread.join();
}

TEST_CASE("A reused state of a thread that died inside the recorder is not busy") {
  const ThreadFixture recording(4096);
  REQUIRE(attach_thread() != nullptr);
  ThreadState* dead = nullptr;
  run_to_death([&] {
    dead = attach_thread();
    if (dead == nullptr) return;
    // The state after a death in a patched function, in an event, and in a signal handler's event.
    dead->calls[0] = {&dead, nullptr, &dead, 1};
    dead->intercepted = 1;
    dead->busy = arch::stack_pointer();
    if (ThreadState* const nested = nested_state(*dead)) nested->busy = arch::stack_pointer();
  });
  REQUIRE(dead != nullptr);
  REQUIRE(dead->nested != nullptr);
  ThreadState* heir = nullptr;
  run_to_death([&] { heir = attach_thread(); });
  REQUIRE(heir == dead);
  CHECK(heir->busy == StackPointer::kNone);
  CHECK(heir->nested->busy == StackPointer::kNone);
  CHECK(heir->intercepted == 0);
  CHECK(heir->calls[0].frame == nullptr);
}

TEST_CASE("A thread can wait until others have left their events") {
  using Clock = std::chrono::steady_clock;
  using std::chrono::milliseconds;
  constexpr milliseconds kShortestLimit{60};  // 600 steps of at least 0.1 ms
  const ThreadFixture recording(4096);
  ThreadState* const own = attach_thread();
  REQUIRE(own != nullptr);
  t_local.state = own;
  own->busy = arch::stack_pointer();
  ThreadState* state = nullptr;  // of the other thread
  // Whether a call returned after the other thread had left its event by `leave`. The scheduler may run that thread
  // too late, so that the call gives up, or too early, so that it has nothing to wait for. Then both start again.
  const auto waits_until = [&](void (*leave)(ThreadState&)) {
    for (int attempt = 0; attempt != 100; ++attempt) {
      std::atomic<bool> entered = false, left = false, returned = false;
      std::thread other([&] {
        state = attach_thread();
        if (state != nullptr) __atomic_store_n(&state->busy, arch::stack_pointer(), __ATOMIC_RELEASE);
        entered = true;
        if (state == nullptr) return;
        std::this_thread::sleep_for(milliseconds(5));
        left = true;
        leave(*state);
        while (!returned) std::this_thread::yield();
        __atomic_store_n(&state->busy, StackPointer::kNone, __ATOMIC_RELEASE);
      });
      while (!entered) std::this_thread::yield();
      const bool too_early = left;
      const Clock::time_point begin = Clock::now();
      wait_until_others_left();
      const Clock::duration waited = Clock::now() - begin;
      const bool has_left = left;
      returned = true;
      other.join();
      REQUIRE(state != nullptr);
      if (!has_left) CHECK(waited >= kShortestLimit);
      else if (!too_early) return true;
    }
    return false;
  };
  // A committed event shows that it was left, although the thread is in the next one.
  CHECK(waits_until(
      [](ThreadState& other) { other.stream.append(Op::kAlloc, other.stream.last_time(), 0x1000, 16, 0, 0); }));
  CHECK(
      waits_until([](ThreadState& other) { __atomic_store_n(&other.busy, StackPointer::kNone, __ATOMIC_RELEASE); }));
  // A thread that never leaves does not stop the program.
  state->busy = arch::stack_pointer();
  wait_until_others_left();
  state->busy = StackPointer::kNone;
  own->busy = StackPointer::kNone;
}

#ifdef HEAPPROF_SINGLE_STEP
TEST_CASE("A thread that dies while it takes a sample does not prevent the next one") {
  const ThreadFixture recording(4096);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  static volatile bool died;
  unsigned deaths = 0;
  for (unsigned step = 1;; step += 10) {
    __atomic_store_n(&g_next_sample, 0, __ATOMIC_RELAXED);
    died = false;
    run_to_death([step] {
      ThreadState* const its = attach_thread();
      const auto die_there = [] {
        died = true;
        die();
      };
      if (its != nullptr)
        interrupt_after(
            step, [its] { sample_if_due(*its, g_clock.now()); }, die_there);
    });
    if (!died) break;
    ++deaths;
    const std::uint64_t deadline = sys::clock_ns(CLOCK_MONOTONIC) + 60'000'000'000;
    bool sampled = false;
    while (!sampled && sys::clock_ns(CLOCK_MONOTONIC) < deadline) sampled = sample_if_due(*state, g_clock.now());
    INFO("died at instruction " << step);
    REQUIRE(sampled);
  }
  CHECK(deaths > 10);
}
#endif
