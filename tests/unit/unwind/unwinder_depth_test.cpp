// Very deep stacks: the frames at which they are truncated, and the results of nested captures.
#include <catch2/catch.hpp>

#include <alloca.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "harness.h"

using namespace unwind_test;

namespace {

/// The recorder's default.
constexpr std::uint32_t kMaxDepth = 1024;

thread_local Recorder* t_recorder = nullptr;
thread_local Stack t_last;
thread_local NodeId t_last_node;
thread_local StackPointer t_last_sp;
thread_local bool t_counts_found = false;
thread_local std::size_t t_found = 0;  ///< stacks that the fast path has found, while t_counts_found

[[gnu::noinline]] void hook() {
  const arch::EntryRegisters entry = arch::entry_registers();
  const unwind::Definitions definitions = t_recorder->tree.definitions();
  if (t_counts_found && t_recorder->unwinder.find_cached(entry, definitions) != NodeId::kNone) ++t_found;
  t_last_node = t_recorder->unwinder.capture(entry, definitions);
  t_last_sp = entry.sp;
  asm volatile("");
}

[[gnu::noinline]] void nested_hook() {
  t_last = resolve(t_recorder->tree, unwind::capture_nested(arch::entry_registers(), t_recorder->tree.definitions()));
  asm volatile("");
}

template <typename Innermost>
[[gnu::noinline]] void recurse(int depth, const Innermost& innermost) {
  if (depth == 0) innermost();
  else recurse(depth - 1, innermost);
  asm volatile("");
}

/// Runs on a new thread with a large stack.
template <typename Scenario>
void on_large_stack(const Scenario& scenario) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256u << 20);
  pthread_t thread;
  REQUIRE(pthread_create(
              &thread, &attributes,
              [](void* what) -> void* {
                (*static_cast<const Scenario*>(what))();
                return nullptr;
              },
              const_cast<Scenario*>(&scenario)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

}  // namespace

TEST_CASE("deep stacks lose a multiple of 512 outermost frames") {
  REQUIRE(unwind::start({.max_depth = kMaxDepth, .shadow_stack = true}));
  on_large_stack([] {
    Recorder recorder;
    t_recorder = &recorder;
    recurse(0, hook);
    const std::size_t outside = resolve(recorder.tree, t_last_node).addresses.size();
    for (const int depth : {900, 1000, 1015, 1020, 1030, 1500, 1535, 1540, 2048, 5000, 1535, 1000, 3}) {
      recurse(depth, hook);
      const Stack stack = resolve(recorder.tree, t_last_node);
      const std::size_t full = outside + static_cast<std::size_t>(depth);
      INFO("depth " << depth << ", " << full << " frames");
      if (full <= kMaxDepth) {
        CHECK(stack.reason == Truncation::kNone);
        CHECK(stack.addresses.size() == full);
      } else {
        CHECK(stack.reason == Truncation::kMaxDepth);
        CHECK(stack.addresses.size() <= kMaxDepth);
        CHECK(stack.addresses.size() > kMaxDepth - 512);
        CHECK((full - stack.addresses.size()) % 512 == 0);
      }
    }
    // A deepening recursion does not create a tree at each depth. The number of omitted frames changes at most once
    // here, so there are at most two trees.
    const std::size_t before = recorder.tree.size();
    for (int depth = 3000; depth < 3512; ++depth) recurse(depth, hook);
    CHECK(recorder.tree.size() - before < 3 * kMaxDepth);
  });
  unwind::start({.max_depth = 1u << 16, .shadow_stack = true});
}

TEST_CASE("stacks of 100,000 frames") {
  REQUIRE(unwind::start({.max_depth = 1u << 20, .shadow_stack = true}));
  on_large_stack([] {
    Recorder recorder;
    t_recorder = &recorder;
    for (const int depth : {100'000, 100'001, 5, 100'000}) {
      recurse(depth, hook);
      const Stack stack = resolve(recorder.tree, t_last_node);
      CHECK(stack.reason == Truncation::kNone);
      CHECK(stack.addresses.size() > static_cast<std::size_t>(depth));
    }
  });
  unwind::start({.max_depth = 1u << 16, .shadow_stack = true});
}

TEST_CASE("only changed frames are interned") {
  Recorder recorder;
  t_recorder = &recorder;
  recurse(200, [&recorder] {
    hook();
    recorder.tree.interned = 0;
    for (int i = 0; i < 10; ++i) hook();
    CHECK(recorder.tree.interned <= 10);
  });
}

namespace {

[[gnu::noinline]] void allocate() {
  hook();
  asm volatile("");
}

/// The stacks of all its callers have the same program counter, stack pointer and first return address.
[[gnu::noinline]] void helper() {
  allocate();
  asm volatile("");
}

template <int kContext>
[[gnu::noinline]] void context() {
  helper();
  asm volatile("" ::"i"(kContext));
}

}  // namespace

TEST_CASE("stacks that differ only in their second return address have different nodes") {
  Recorder recorder;
  t_recorder = &recorder;
  constexpr std::array kContexts{context<0>, context<1>, context<2>, context<3>, context<4>};
  std::array<NodeId, kContexts.size()> nodes{};
  for (int round = 0; round < 10; ++round) {
    for (std::size_t i = 0; i < kContexts.size(); ++i) {
      kContexts[i]();
      if (round == 0) nodes[i] = t_last_node;
      CHECK(t_last_node == nodes[i]);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  CHECK(std::unique(nodes.begin(), nodes.end()) == nodes.end());
}

TEST_CASE("the fast path finds the stacks of a caller with several contexts") {
  Recorder recorder;
  t_recorder = &recorder;
  constexpr std::array kContexts{context<0>, context<1>, context<2>, context<3>,
                                 context<4>, context<5>, context<6>, context<7>};
  for (int round = 0; round < 20; ++round) {
    t_counts_found = round >= 10;
    if (round == 10) t_found = 0;
    for (const auto each : kContexts) each();
  }
  t_counts_found = false;
  // Some contexts may have one place by chance, and only one of these is found.
  CHECK(t_found >= 10 * kContexts.size() / 2);
}

namespace {

volatile std::size_t g_helper_room = 64;

/// Its stack pointer is aligned as that of another_caller().
[[gnu::noinline]] void helper_with_room() {
  auto* const room = static_cast<volatile char*>(alloca(g_helper_room));
  room[0] = 1;
  allocate();
  asm volatile("" ::"r"(room) : "memory");
}

template <int kContext>
[[gnu::noinline]] void context_with_room() {
  volatile char room[1024];
  room[kContext] = 1;
  helper_with_room();
  asm volatile("" ::"i"(kContext), "r"(&room[0]) : "memory");
}

/// With the right number of bytes, the stack pointer is that of context_with_room(). The variables are where that has
/// return addresses.
template <int kCaller>
[[gnu::noinline]] void another_caller(std::size_t bytes, std::uint64_t value) {
  auto* const variables = static_cast<volatile std::uint64_t*>(alloca(bytes));
  for (std::size_t i = 0; i != bytes / sizeof *variables; ++i) variables[i] = value + i;
  allocate();
  asm volatile("" ::"i"(kCaller), "r"(variables) : "memory");
}

}  // namespace

TEST_CASE("the fast path finds stacks with a variable at the place of another caller's context word") {
  Recorder recorder;
  t_recorder = &recorder;
  constexpr std::array kContexts{context_with_room<0>, context_with_room<1>, context_with_room<2>,
                                 context_with_room<3>};
  constexpr std::array kCallers{another_caller<0>, another_caller<1>, another_caller<2>, another_caller<3>};
  kContexts[0]();
  const StackPointer sp = t_last_sp;
  std::array<std::size_t, kCallers.size()> bytes{};
  for (std::size_t i = 0; i < kCallers.size(); ++i) {
    do {
      bytes[i] += 16;
      kCallers[i](bytes[i], 0);
    } while (t_last_sp > sp);
    REQUIRE(t_last_sp == sp);
  }
  std::uint64_t value = 0;
  std::size_t found = 0;
  for (int round = 0; round < 200; ++round) {
    t_counts_found = round >= 100;
    for (const auto each : kContexts) each();
    t_found = 0;
    for (std::size_t i = 0; i < kCallers.size(); ++i) kCallers[i](bytes[i], value += 1000);
    found += t_found;
  }
  t_counts_found = false;
  // Of 400. Some may have one place by chance. If the places depended on the variables, it would be a quarter.
  CHECK(found >= 160);
}

TEST_CASE("captures without shadow stack return the same nodes") {
  Recorder with, without;
  std::vector<NodeId> nodes[2];
  for (const bool shadow : {true, false}) {
    REQUIRE(unwind::start({.max_depth = kMaxDepth, .shadow_stack = shadow}));
    t_recorder = shadow ? &with : &without;
    for (int round = 0; round < 60; ++round) {
      recurse((round * 37) % 50, [&] {
        hook();
        nodes[shadow].push_back(t_last_node);
        recurse(round % 3, hook);
        nodes[shadow].push_back(t_last_node);
      });
    }
  }
  unwind::start({.max_depth = 1u << 16, .shadow_stack = true});
  CHECK(nodes[0] == nodes[1]);
  CHECK(with.tree.size() == without.tree.size());
}

TEST_CASE("nested captures keep the innermost frames") {
  Recorder recorder;
  t_recorder = &recorder;
  recurse(10, nested_hook);
  CHECK(t_last.reason == Truncation::kNone);
  const std::size_t ten = t_last.addresses.size();
  CHECK(ten > 10);
  recurse(1000, nested_hook);
  CHECK(t_last.reason == Truncation::kNested);
  CHECK(t_last.addresses.size() > 100);
  CHECK(t_last.addresses.size() < 1000);
}
