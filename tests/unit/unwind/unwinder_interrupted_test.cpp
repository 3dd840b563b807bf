// Stacks captured after every instruction of ordinary code (by the trap flag): in prologues and epilogues, in PLT
// entries, in the dynamic linker, in libc. Every stack is compared with libunwind's.
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "harness.h"
#include "library_copies.h"
#include "preload/unwind/modules.h"
#include "tests/support/skip_case.h"

using namespace unwind_test;

namespace {

const bool g_started = heapprof::unwind::start({.max_depth = 1u << 16, .shadow_stack = true});

constexpr std::size_t kMaxFrames = 128;
constexpr std::size_t kMaxKept = 4;

/// Plain memory, because the handler may not allocate.
struct Sample {
  std::array<std::uint64_t, kMaxFrames> ours, theirs;
  std::size_t our_count, their_count;
  Truncation reason;
};
std::array<Sample, kMaxKept> g_different;
volatile std::size_t g_different_count, g_compared;

/// A call tree of one stack. A nested capture interns all frames, outermost first.
struct OneStack {
  std::array<std::uint64_t, kMaxFrames> offsets;
  std::array<ModuleId, kMaxFrames> modules;
  std::size_t count = 0;
  Truncation reason = Truncation::kNone;

  static NodeId intern(void* context, NodeId, ModuleId module, std::uint64_t offset, std::uint32_t) {
    auto& stack = *static_cast<OneStack*>(context);
    if (module == ModuleId::kTruncationRoot) {
      stack.reason = static_cast<Truncation>(offset);
    } else if (stack.count < kMaxFrames) {
      stack.modules[stack.count] = module;
      stack.offsets[stack.count++] = offset;
    }
    return NodeId{1};
  }
};

// Each module is defined once. The load biases are stored where a handler can read them.
std::array<std::uint64_t, 1000> g_biases;
void define_module(void*, const heapprof::unwind::ModuleInfo& module) {
  g_biases.at(raw(module.id)) = module.load_bias;
}

/// Returns whether the compiler's rules are wrong at `pc`. At the end of a function that aligned its stack, GCC 12's
/// rules still look for the caller's rbp where rbp points, although it has been popped. In the next frame, an
/// arbitrary number is then used as an address; libunwind reads there and may crash.
bool rules_are_wrong(const std::uint8_t* pc) {
  static constexpr std::uint8_t kDropAlignedFrame[] = {0x49, 0x8d, 0x62, 0xf8};  // lea -8(%r10),%rsp
  constexpr std::uint8_t kReturn = 0xc3;
  const auto drops = [](const std::uint8_t* at) {
    return std::memcmp(at, kDropAlignedFrame, sizeof kDropAlignedFrame) == 0;
  };
  return drops(pc) || (*pc == kReturn && drops(pc - sizeof kDropAlignedFrame));
}

/// Without the oracle the test only requires that the capture returns.
[[gnu::noinline]] void sample(bool oracle) {
  const auto entry = arch::entry_registers();
  Sample sample;
  OneStack stack;
  const heapprof::unwind::Definitions definitions{&stack, OneStack::intern, define_module};
  heapprof::unwind::capture_nested(entry, definitions);
  if (!oracle) return;
  g_compared = g_compared + 1;
  sample.reason = stack.reason;
  sample.our_count = stack.count;
  for (std::size_t i = 0; i < stack.count; ++i) {
    const std::uint64_t bias = stack.modules[i] == ModuleId::kAnonymous ? 0 : g_biases[raw(stack.modules[i])];
    sample.ours[stack.count - 1 - i] = stack.offsets[i] + bias;
  }
  sample.their_count = oracle_frames(entry, sample.theirs.data(), kMaxFrames);
  if (sample.reason == Truncation::kNone &&
      std::equal(sample.ours.begin(), sample.ours.begin() + sample.our_count, sample.theirs.begin(),
                 sample.theirs.begin() + sample.their_count)) {
    return;
  }
  if (g_different_count < kMaxKept) g_different[g_different_count] = sample;
  g_different_count = g_different_count + 1;
}

constexpr greg_t kTrapFlag = 1 << 8;
volatile bool g_stepping;

void handler(int, siginfo_t*, void* opaque) {
  auto& registers = static_cast<ucontext_t*>(opaque)->uc_mcontext.gregs;
  if (g_stepping) {
    registers[REG_EFL] |= kTrapFlag;
    sample(!rules_are_wrong(reinterpret_cast<const std::uint8_t*>(registers[REG_RIP])));
  } else {
    registers[REG_EFL] &= ~kTrapFlag;
  }
  asm volatile("");  // prevents a tail call: this frame must be on the stack
}

[[gnu::noinline]] int by_value(const void* a, const void* b) {
  return *static_cast<const int*>(a) < *static_cast<const int*>(b) ? -1 : 1;
}

volatile double g_result;

[[gnu::noinline]] double calls_all_kinds(int depth) {
  alignas(64) char text[256];
  int numbers[16];
  for (int i = 0; i < 16; ++i) numbers[i] = (i * 7919) % 16;
  qsort(numbers, 16, sizeof numbers[0], by_value);
  std::snprintf(text, sizeof text, "%d %s %f", depth, "text", std::sin(depth));
  double sum = std::strtod(text + 7, nullptr) + std::strlen(text) + numbers[3];
  std::memmove(text + 1, text, 100);
  sum += std::pow(1.0001, depth) + std::strtol(text, nullptr, 10);
  return depth == 0 ? sum : sum + calls_all_kinds(depth - 1);
}

}  // namespace

TEST_CASE("interrupted at every instruction") {
  REQUIRE(g_started);
  oracle_frames({}, nullptr, 0);         // the first call initialises libunwind
  heapprof::unwind::restart_in_child();  // other tests may have defined the modules
  struct sigaction action {
  }, before{};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  g_stepping = true;
  raise(SIGTRAP);
  for (int i = 0; i < 3; ++i) g_result = calls_all_kinds(i);
  g_stepping = false;
  sigaction(SIGTRAP, &before, nullptr);

  std::string differences;
  for (std::size_t i = 0; i < std::min(std::size_t{g_different_count}, kMaxKept); ++i) {
    const Sample& sample = g_different[i];
    differences += "ours (reason " + std::to_string(static_cast<unsigned>(sample.reason)) + "):\n" +
                   describe({sample.ours.begin(), sample.ours.begin() + sample.our_count}) + "libunwind:\n" +
                   describe({sample.theirs.begin(), sample.theirs.begin() + sample.their_count});
  }
  INFO(differences.substr(0, 8000));
  CHECK(g_compared > 10'000);
  CHECK(g_different_count == 0);
}

namespace {

// A signal handler finds a module while the interrupted code is finding it.
constexpr std::uint64_t kMaxInstructions = 20'000;
std::uint64_t g_address;
volatile std::uint64_t g_instructions, g_interrupt_at;
ModuleId volatile g_found_inside;

ModuleId find(std::uint64_t address) {
  const auto* const module = heapprof::unwind::find_module(address, heapprof::unwind::generation());
  return module == nullptr ? ModuleId::kAnonymous : module->id;
}

void find_at_instruction(int, siginfo_t*, void* opaque) {
  auto& registers = static_cast<ucontext_t*>(opaque)->uc_mcontext.gregs;
  const std::uint64_t instruction = g_instructions;
  g_instructions = instruction + 1;
  if (g_stepping && instruction < kMaxInstructions) registers[REG_EFL] |= kTrapFlag;
  else registers[REG_EFL] &= ~kTrapFlag;
  if (g_stepping && instruction == g_interrupt_at) g_found_inside = find(g_address);
}

/// Finds the module at `address`, and finds it again in a signal handler after `instructions` instructions. Counts
/// the instructions, without those of the handler, in g_instructions.
ModuleId find_twice(std::uint64_t address, std::uint64_t instructions) {
  g_address = address;
  g_interrupt_at = instructions;
  g_instructions = 0;
  g_found_inside = ModuleId::kAnonymous;
  g_stepping = true;
  raise(SIGTRAP);
  const ModuleId id = find(address);
  g_stepping = false;
  return id;
}

}  // namespace

TEST_CASE("a module that a signal handler finds while it is being found has one id") {
  REQUIRE(g_started);
  const Copies copies(PLUGIN_1, 100);
  struct sigaction action {
  }, before{};
  action.sa_sigaction = find_at_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, &before);
  find_twice(copies.address(0), ~std::uint64_t{0});
  const std::uint64_t all = g_instructions;
  if (all > kMaxInstructions) {
    sigaction(SIGTRAP, &before, nullptr);
    return heapprof::test::skip_case("an old libc: reading /proc/self/maps takes too many instructions");
  }
  std::size_t interrupted = 0, different = 0;
  for (std::size_t i = 1; i < copies.size(); ++i) {
    const ModuleId id = find_twice(copies.address(i), all * i / copies.size());
    if (g_found_inside == ModuleId::kAnonymous) continue;
    ++interrupted;
    different += id != g_found_inside ? 1 : 0;
  }
  sigaction(SIGTRAP, &before, nullptr);
  CHECK(interrupted > copies.size() / 2);
  CHECK(different == 0);
}
