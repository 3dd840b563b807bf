// Timeline samples, and the times at which none may be taken.
#include "preload/recorder/control/sampler.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>

#include "preload/recorder/recorder.h"
#include "tests/support/single_step.h"
#include "tests/support/system_calls.h"
#include "tests/unit/recorder/stream_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

/// System calls are forbidden during its lifetime, as after the host entered seccomp.
struct Forbidden {
  Forbidden() { __atomic_fetch_add(&sys::g_forbidden, 1, __ATOMIC_SEQ_CST); }
  ~Forbidden() { __atomic_fetch_sub(&sys::g_forbidden, 1, __ATOMIC_SEQ_CST); }
};

constexpr std::uint64_t kNever = ~std::uint64_t{0};

}  // namespace

TEST_CASE("A sample has resident and shared bytes and two clocks, and the next one is due later") {
  StreamFixture recording;
  start_sampler();
  resume_sampler();
  const std::uint64_t before_ns = sys::clock_ns(CLOCK_MONOTONIC);
  const Ticks before = g_clock.now();
  CHECK(sample_if_due(*recording.state, before));
  const std::uint64_t after_ns = sys::clock_ns(CLOCK_MONOTONIC);
  const std::vector<Slot> records = recording.records();
  REQUIRE(records.size() == 2);
  const Slot& shared = records[0];
  const Slot& sample = records[1];
  CHECK(shared.op() == Op::kText);
  CHECK(shared.node == static_cast<std::uint32_t>(TextKind::kSharedMemory));
  CHECK(shared.aux == 0);
  CHECK(shared.time == sample.time);
  CHECK(sample.op() == Op::kSample);
  CHECK(Ticks{sample.time} >= before);
  CHECK(sample.address >= before_ns);
  CHECK(sample.address <= after_ns);
  CHECK(sample.size() > 0);
  // The test's own code is resident, and so are pages that are not of files.
  CHECK(shared.size() > 0);
  CHECK(shared.size() < sample.size());
  CHECK(g_next_sample > sample.time);
  CHECK_FALSE(sample_if_due(*recording.state, Ticks{sample.time}));
  CHECK(recording.records().size() == 2);
}

TEST_CASE("Shared memory that the program touches is in the shared bytes of the next sample") {
  StreamFixture recording;
  start_sampler();
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  take_sample(*recording.state);
  auto* memory = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(memory != MAP_FAILED);
  for (std::size_t at = 0; at < kBytes; at += 4096) memory[at] = 1;
  take_sample(*recording.state);
  munmap(memory, kBytes);
  const std::vector<Slot> records = recording.records();
  REQUIRE(records.size() == 4);
  // The kernel may count the last few pages of each thread late (mm/memory.c, "SPLIT_RSS_COUNTING").
  const std::uint64_t more = records[2].size() - records[0].size();
  CHECK(more >= kBytes - (std::size_t{1} << 20));
  CHECK(more <= kBytes + (std::size_t{1} << 20));
}

TEST_CASE("Where system calls are forbidden no sample is taken, and the clock's rate stays") {
  StreamFixture recording;
  start_sampler();
  resume_sampler();
  const Ticks rate = g_clock.ticks_in(1 << 20);
  {
    const Forbidden forbidden;
    SECTION("requested, at the end of the program") { take_sample(*recording.state); }
    SECTION("due") { sample_if_due(*recording.state, g_clock.now()); }
    SECTION("never due again, once the sampler was stopped") {
      stop_sampler();
      take_sample(*recording.state);
      CHECK(g_next_sample == kNever);
    }
  }
  CHECK(recording.records().empty());
  CHECK(g_clock.ticks_in(1 << 20) == rate);
}

TEST_CASE("A sampler that is stopped while a sample is taken stays stopped") {
  StreamFixture recording;
  start_sampler();
  resume_sampler();
  bool stopped = false;
  const bool replaced = with_replaced_calls(
      {SYS_pread64},
      [&](SystemCall& call) {
        // Another thread enters seccomp here.
        stop_sampler();
        stopped = true;
        return call.make();
      },
      [&] { sample_if_due(*recording.state, g_clock.now()); });
  if (!replaced) return;
  REQUIRE(stopped);
  CHECK(g_next_sample == kNever);
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

ThreadState* g_thread;
std::uint64_t g_frozen_time;
volatile bool g_restricted;

void restrict_calls() {
  restrict_system_calls(true);
  g_frozen_time = tick_count(g_clock.now());
  g_restricted = true;
}

/// Ends the restriction, if there is one, as after the kernel refused it.
void lift_restriction() {
  if (g_restricted) restriction_refused(true);
  g_restricted = false;
}

/// Prevents functions of the recorder from entering the thread's state, which the test uses itself.
struct RecorderOff {
  RecorderOff() { g_state = State::kOff; }
  ~RecorderOff() { g_state = State::kNew; }
};

/// No sample has the time of the frozen clock, or 0 as resident bytes because they could not be read.
void check_samples(const StreamFixture& recording) {
  for (const Slot& slot : recording.records()) {
    REQUIRE((slot.op() == Op::kSample || slot.op() == Op::kText));
    REQUIRE(slot.time != g_frozen_time);
    REQUIRE(slot.size() > 0);
  }
}

}  // namespace

TEST_CASE("No sample has the time of a frozen clock, wherever in a restriction it is taken") {
  const RecorderOff off;
  const auto sample = [] { take_sample(*g_thread); };
  const auto check = [&](bool restricted_before, void (*body)()) {
    for (unsigned steps = 0;; ++steps) {
      StreamFixture recording;
      g_thread = recording.state.get();
      start_sampler();
      resume_sampler();
      if (restricted_before) restrict_calls();
      const bool interrupted = interrupt_after(steps, body, sample);
      lift_restriction();
      INFO("interrupted after " << steps << " instructions");
      check_samples(recording);
      if (!interrupted) {
        CHECK(steps > 10);
        return;
      }
    }
  };
  SECTION("The restriction begins") { check(false, restrict_calls); }
  SECTION("The kernel refuses it") { check(true, lift_restriction); }
}

TEST_CASE("A sample in which a restriction begins is dropped, also when the kernel refuses the restriction") {
  const RecorderOff off;
  for (const long begins_in : {SYS_statx, SYS_pread64}) {
    static InstructionStop stop;
    for (unsigned steps = 0;; steps += stop.missed() ? 0 : 1) {
      StreamFixture recording;
      g_thread = recording.state.get();
      start_sampler();
      resume_sampler();
      bool interrupted = false, restricted = false;
      const bool replaced = with_replaced_calls(
          {begins_in},
          [&](SystemCall& call) {
            restrict_calls();
            restricted = true;
            return call.make();
          },
          [&] {
            interrupted = interrupt_after(
                stop, steps, [] { take_sample(*g_thread); }, lift_restriction);
          });
      if (!replaced) return;
      REQUIRE(restricted);
      lift_restriction();
      INFO("interrupted after " << steps << " instructions");
      REQUIRE(recording.records().empty());
      if (!interrupted && !stop.missed()) {
        CHECK(steps > 10);
        break;
      }
    }
  }
}
#endif

TEST_CASE("A sampler that starts again closes its descriptor") {
  start_sampler();
  for (int i = 0; i < 5; ++i) start_sampler();
  const auto descriptors = [] {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += std::filesystem::read_symlink(entry, gone).filename() == "statm";
    }
    return count;
  };
  CHECK(descriptors() == 1);
}
