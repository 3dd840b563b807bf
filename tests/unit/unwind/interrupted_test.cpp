// Stacks captured at any instruction: a timer interrupts ordinary code, in prologues and epilogues, in PLT
// entries, in the middle of libc. Every stack is compared with libunwind's.
#include <signal.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness.h"

using namespace unwind_test;

namespace {

const bool g_started = heapprof::unwind::start({.max_depth = 1u << 16, .shadow_stack = true});

constexpr std::size_t kMaxFrames = 128;
constexpr std::size_t kMaxSamples = 3000;

/// A sample as plain memory: the handler may not allocate, not even for the test's own purposes.
struct Sample {
  std::array<std::uint64_t, kMaxFrames> ours, theirs;
  std::size_t our_count, their_count;
  Truncation reason;
};
std::array<Sample, kMaxSamples> g_samples;
volatile std::size_t g_count;

/// A tree that is one stack: capture interns all of its frames, outermost first, since every capture is
/// made by a new unwinder.
struct OneStack {
  std::array<std::uint64_t, kMaxFrames> offsets;
  std::array<ModuleId, kMaxFrames> modules;
  std::size_t count = 0;
  Truncation reason = Truncation::kNone;

  static NodeId intern(void* context, NodeId, ModuleId module, std::uint64_t offset, std::uint32_t,
                       std::uint64_t) {
    auto& stack = *static_cast<OneStack*>(context);
    if (module == ModuleId::kMark) {
      stack.reason = static_cast<Truncation>(offset);
    } else if (stack.count < kMaxFrames) {
      stack.modules[stack.count] = module;
      stack.offsets[stack.count++] = offset;
    }
    return NodeId{1};
  }
};

// Modules are announced once; the biases are kept where a handler can read them.
std::array<std::uint64_t, 1000> g_biases;
void module_found(void*, const heapprof::unwind::ModuleInfo& module) {
  g_biases.at(raw(module.id)) = module.load_bias;
}

[[gnu::noinline]] void sample() {
  const auto entry = arch::entry_registers();
  if (g_count == kMaxSamples) return;
  Sample& sample = g_samples[g_count];
  OneStack stack;
  const heapprof::unwind::Definitions definitions{&stack, OneStack::intern, module_found};
  heapprof::unwind::capture_nested(entry, definitions);
  sample.reason = stack.reason;
  sample.our_count = stack.count;
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uint64_t bias = stack.modules[i] == ModuleId::kAnonymous ? 0 : g_biases[raw(stack.modules[i])];
    sample.ours[stack.count - 1 - i] = stack.offsets[i] + bias;
  }
  sample.their_count = oracle_frames(entry, sample.theirs.data(), kMaxFrames);
  g_count = g_count + 1;
}

void handler(int) {
  sample();
  asm volatile("");
}

[[gnu::noinline]] int by_value(const void* a, const void* b) {
  return *static_cast<const int*>(a) < *static_cast<const int*>(b) ? -1 : 1;
}

volatile double g_result;

[[gnu::noinline]] double calls_all_kinds(int depth) {
  alignas(64) char text[256];
  int numbers[64];
  for (int i = 0; i < 64; ++i) numbers[i] = (i * 7919) % 64;
  qsort(numbers, 64, sizeof numbers[0], by_value);
  std::snprintf(text, sizeof text, "%d %s %f", depth, "text", std::sin(depth));
  double sum = std::strtod(text + 7, nullptr) + std::strlen(text) + numbers[3];
  std::memmove(text + 1, text, 100);
  sum += std::pow(1.0001, depth) + std::strtol(text, nullptr, 10);
  return depth == 0 ? sum : sum + calls_all_kinds(depth - 1);
}

}  // namespace

TEST_CASE("interrupted anywhere") {
  REQUIRE(g_started);
  oracle_frames({}, nullptr, 0);        // its first call initialises it
  heapprof::unwind::restart_in_child();    // other tests may have met the modules
  struct sigaction action {};
  action.sa_handler = handler;
  sigaction(SIGPROF, &action, nullptr);
  const itimerval often{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &often, nullptr);
  for (int i = 0; i < 200000 && g_count < kMaxSamples; ++i) g_result = calls_all_kinds(i % 20);
  const itimerval never{};
  setitimer(ITIMER_PROF, &never, nullptr);
  signal(SIGPROF, SIG_IGN);

  std::size_t different = 0;
  std::string first;
  for (std::size_t i = 0; i < g_count; ++i) {
    const Sample& sample = g_samples[i];
    const std::vector<std::uint64_t> ours(sample.ours.begin(), sample.ours.begin() + sample.our_count);
    const std::vector<std::uint64_t> theirs(sample.theirs.begin(), sample.theirs.begin() + sample.their_count);
    if (same_stack(ours, theirs) && sample.reason == Truncation::kNone) continue;
    ++different;
    first += "ours (reason " + std::to_string(static_cast<unsigned>(sample.reason)) + "):\n" + describe(ours) +
             "libunwind:\n" + describe(theirs);
  }
  INFO(first.substr(0, 8000));
  CHECK(g_count > 100);
  CHECK(different == 0);
}
