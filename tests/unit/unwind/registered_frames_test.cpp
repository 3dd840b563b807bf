// Code generated at run time, with and without registered unwind information.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>

#include "harness.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/registered_frames.h"
#include "preload/unwind/step.h"
#include "tests/support/single_step.h"

using namespace unwind_test;

namespace {

const bool g_started = heapprof::unwind::start({.max_depth = 1u << 16, .shadow_stack = true});

thread_local Hook* t_hook = nullptr;
[[gnu::noinline]] void hook() {
  (*t_hook)();
  asm volatile("");
}

/// A page with one function that calls its argument, from a frame of `words` words.
class Code {
 public:
  Code() {
    page_ = static_cast<std::uint8_t*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  ~Code() { munmap(page_, 4096); }
  Code(const Code&) = delete;

  /// Writes the code: push %rbx (an odd number of times, so that the stack is aligned); call *%rdi; pop %rbx ...;
  /// ret. And its .eh_frame entries.
  void write(std::uint8_t words) {
    std::uint8_t* at = page_;
    for (unsigned i = 0; i < words; ++i) *at++ = 0x53;
    *at++ = 0xff;
    *at++ = 0xd7;
    for (unsigned i = 0; i < words; ++i) *at++ = 0x5b;
    *at++ = 0xc3;
    const std::uint8_t common[] = {0x14, 0,    0,  0, 0,    0,    0, 0, 1,    'z', 'R', 0,
                                   1,    0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1,   0,   0};
    const std::uint8_t entry[] = {0x1c, 0, 0, 0, 0x1c, 0, 0, 0};
    std::memcpy(frames_, common, sizeof common);
    std::memcpy(frames_ + 24, entry, sizeof entry);
    const std::uint64_t range[] = {reinterpret_cast<std::uint64_t>(page_), static_cast<std::uint64_t>(at - page_)};
    std::memcpy(frames_ + 32, range, sizeof range);
    // After the pushes, CFA = sp + 8 * (words + 1).
    const std::uint8_t instructions[] = {0,    static_cast<std::uint8_t>(0x40 + words),
                                         0x0e, static_cast<std::uint8_t>(8 * (words + 1)),
                                         0,    0,
                                         0,    0,
                                         0,    0,
                                         0,    0};
    std::memcpy(frames_ + 48, instructions, sizeof instructions);
  }
  void call() { reinterpret_cast<void (*)(void (*)())>(page_)(hook); }
  const void* frames() const { return frames_; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(page_); }
  bool contains(std::uint64_t address) const { return address - reinterpret_cast<std::uint64_t>(page_) < 4096; }

 private:
  std::uint8_t* page_;
  alignas(8) std::uint8_t frames_[64];
};

}  // namespace

TEST_CASE("registered code is unwound by its tables, and not by them after they are deregistered") {
  REQUIRE(g_started);
  Recorder recorder;
  Hook here(recorder);
  here.compare_with_oracle = false;  // libunwind does not support __register_frame
  t_hook = &here;
  hook();
  const Stack direct = here.last;
  Code code;
  for (int round = 0; round < 6; ++round) {
    code.write(round % 2 == 0 ? 1 : 5);
    heapprof::unwind::register_frame(code.frames(), code.frames());
    for (int i = 0; i < 3; ++i) {
      code.call();
      const Stack& through = here.last;
      CHECK(through.reason == Truncation::kNone);
      // hook, the generated code, Code::call, this test, ...
      REQUIRE(through.addresses.size() >= direct.addresses.size() + 1);
      CHECK(code.contains(through.addresses[1]));
      CHECK(std::count(through.by_frame_pointer.begin(), through.by_frame_pointer.end(), true) == 0);
      CHECK(std::equal(through.addresses.end() - static_cast<std::ptrdiff_t>(direct.addresses.size()) + 2,
                       through.addresses.end(), direct.addresses.begin() + 2));
    }
    heapprof::unwind::deregister_frame(code.frames());
  }
  // Without tables the frame pointer may lead further or not. The generated code itself is always a frame.
  code.call();
  CHECK(code.contains(here.last.addresses.at(1)));
  const auto& flags = here.last.by_frame_pointer;
  const bool by_frame_pointer = std::count(flags.begin(), flags.end(), true) > 0;
  CHECK((by_frame_pointer || here.last.reason == Truncation::kNoUnwindInfo));
  t_hook = nullptr;
}

TEST_CASE("many registrations and deregistrations") {
  REQUIRE(g_started);
  std::vector<std::unique_ptr<Code>> codes;
  Recorder recorder;
  Hook here(recorder);
  here.compare_with_oracle = false;
  t_hook = &here;
  for (int i = 0; i < 1500; ++i) {
    codes.push_back(std::make_unique<Code>());
    codes.back()->write(static_cast<std::uint8_t>(1 + 2 * (i % 4)));
    heapprof::unwind::register_frame(codes.back()->frames(), codes.back()->frames());
    if (i % 3 == 0) heapprof::unwind::deregister_frame(codes[static_cast<std::size_t>(i) / 2]->frames());
  }
  for (std::size_t i = 1400; i < 1500; ++i) {
    codes[i]->call();
    CHECK(here.last.reason == Truncation::kNone);
    CHECK(codes[i]->contains(here.last.addresses.at(1)));
  }
  for (const auto& code : codes) heapprof::unwind::deregister_frame(code->frames());
  t_hook = nullptr;
}

TEST_CASE("sequences registered as one table are deregistered together") {
  REQUIRE(g_started);
  std::array<Code, 3> codes;
  std::array<const void*, 4> table{};
  for (std::size_t i = 0; i < codes.size(); ++i) {
    codes[i].write(static_cast<std::uint8_t>(1 + 2 * i));
    table[i] = codes[i].frames();
    heapprof::unwind::register_frame(codes[i].frames(), table.data());
  }
  for (const Code& code : codes) CHECK(heapprof::unwind::find_registered(code.address()).begin != 0);
  heapprof::unwind::deregister_frame(table.data());
  for (const Code& code : codes) CHECK(heapprof::unwind::find_registered(code.address()).begin == 0);
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

const heapprof::unwind::Walk* g_walk;
heapprof::unwind::FrameAddress g_address;
heapprof::unwind::FrameAddress g_other_address;
heapprof::unwind::Rule g_rule;

}  // namespace

TEST_CASE("a rule of deregistered code is not used by a thread that reads it while another one removes it") {
  using heapprof::unwind::Rule;
  using heapprof::unwind::RuleKind;
  using heapprof::unwind::Walk;
  REQUIRE(g_started);
  const Code code;
  g_address = {heapprof::ProgramCounter{code.address() + 16}, false};
  g_other_address = {heapprof::ProgramCounter{code.address() + 32}, false};
  Recorder recorder;
  const heapprof::unwind::Definitions definitions = recorder.tree.definitions();
  const auto entry = heapprof::arch::entry_registers();
  const heapprof::unwind::State state = heapprof::unwind::entry_state(entry);
  heapprof::unwind::StackBounds bounds{};
  heapprof::unwind::FullFrame full{};
  const auto find = [] { g_rule = find_rule(*g_walk, g_address); };
  const auto remove = [] { find_rule(*g_walk, g_other_address); };
  // More instructions than find_rule() has before it calls the kernel or the loader.
  constexpr unsigned kSteps = 400;
  for (unsigned steps = 0; steps != kSteps; ++steps) {
    heapprof::unwind::raise_generation();
    const Walk before{state, bounds, full, entry, definitions, heapprof::unwind::generation()};
    g_walk = &before;
    remove();
    heapprof::unwind::detail::rules.store(g_address, Rule{RuleKind::kSp, ModuleId::kAnonymous, 1});
    find();
    REQUIRE(g_rule.kind() == RuleKind::kSp);
    heapprof::unwind::raise_generation();  // as deregister_frame()
    const Walk after{state, bounds, full, entry, definitions, heapprof::unwind::generation()};
    g_walk = &after;
    REQUIRE(heapprof::test::interrupt_after(steps, find, remove));
    INFO("interrupted after " << steps << " instructions");
    REQUIRE(g_rule.kind() == RuleKind::kNoUnwindInfo);
  }
}
#endif
