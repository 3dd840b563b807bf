// The numbers of C stacks: different stacks never have the same one, and each knows its interpreter and handler.
#include "preload/python/native_stacks.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "preload/python/interpreter.h"
#include "preload/unwind/unwinder.h"
#include "tests/support/seed.h"
#include "tests/unit/recorder/stream_fixture.h"

using namespace heapprof;
using python::NativeStack;
using test::StreamFixture;

namespace {

constexpr ModuleId kProgram{2}, kInterpreter{3}, kLater{4};

struct Fixture {
  Fixture() {
    find(kInterpreter);
    stacks->begin();
  }
  ~Fixture() { python::detail::interpreter_count = python::detail::found_interpreters = 0; }

  /// As if an interpreter was found in this module.
  void find(ModuleId module) {
    python::Interpreter& found = python::detail::interpreters[python::detail::interpreter_count++];
    found = {};
    found.module = raw(module);
    ++python::detail::found_interpreters;
  }

  NodeId add(NodeId parent, ModuleId module, std::uint64_t offset, std::uint32_t flags = 0) {
    return stacks->intern(parent, module, offset, flags, recording.state->stream);
  }

  StreamFixture recording;
  std::unique_ptr<python::NativeStacks> stacks = std::make_unique<python::NativeStacks>();
};

}  // namespace

TEST_CASE("stacks without an interpreter and a handler are nodes of the call tree, the others have numbers") {
  Fixture fixture;
  const NativeStack main(fixture.add(NodeId::kNone, kProgram, 0x10));
  CHECK_FALSE(main.numbered());
  CHECK(main.interpreter() == 0);
  const NativeStack evaluation(fixture.add(main.id(), kInterpreter, 0x20));
  CHECK(evaluation.numbered());
  CHECK(evaluation.interpreter() == 1);
  CHECK_FALSE(evaluation.in_handler());
  CHECK(evaluation.executes(1));
  CHECK_FALSE(evaluation.executes(2));
  CHECK_FALSE(main.executes(0));
  const NativeStack inside(fixture.add(evaluation.id(), kProgram, 0x30));
  CHECK(inside.interpreter() == 1);
  const NativeStack handler(fixture.add(inside.id(), kProgram, 0x40, unwind::kSignalNode));
  CHECK(handler.in_handler());
  CHECK(handler.interpreter() == 1);
  CHECK(NativeStack(fixture.add(handler.id(), kProgram, 0x50)).in_handler());
  const NativeStack without(fixture.add(main.id(), kProgram, 0x40, unwind::kSignalNode));
  CHECK(without.in_handler());
  CHECK(without.interpreter() == 0);
  CHECK(fixture.add(evaluation.id(), kProgram, 0x30) == inside.id());
}

TEST_CASE("different stacks never have the same number, though the table forgets") {
  Fixture fixture;
  const NodeId root = fixture.add(NodeId::kNone, kInterpreter, 1);
  std::map<NodeId, std::pair<NodeId, std::uint64_t>> known{{root, {NodeId::kNone, 1}}};
  std::vector<NodeId> parents{root};
  std::mt19937 random(test::seed(1));
  std::uint32_t again = 0, forgotten = 0;
  std::map<std::pair<NodeId, std::uint64_t>, NodeId> last;
  for (int i = 0; i != 200'000; ++i) {
    const std::pair stack{parents[random() % parents.size()], random() % 64};
    const NodeId id = fixture.add(stack.first, kProgram, stack.second);
    const auto [at, fresh] = known.try_emplace(id, stack);
    if (at->second != stack) FAIL("one number for two stacks");
    if (const auto before = last.find(stack); before != last.end()) ++(before->second == id ? again : forgotten);
    last[stack] = id;
    if (fresh && parents.size() < 1000) parents.push_back(id);
  }
  CHECK(again > 0);
  CHECK(forgotten > 0);
  CHECK_FALSE(fixture.stacks->is_outdated());
}

TEST_CASE("stacks that have lost other frames have other numbers") {
  Fixture fixture;
  const auto root = [&](std::uint64_t omitted, bool signal = false) {
    return fixture.stacks->intern_omitted(omitted, signal, fixture.recording.state->stream);
  };
  CHECK(root(100) == root(100));
  CHECK(root(100) != root(200));
  // Frames of C have numbers, too: the mixed stack may have the frames that were lost.
  const NativeStack one(fixture.add(root(100), kProgram, 1)), other(fixture.add(root(200), kProgram, 1));
  CHECK(one.numbered());
  CHECK(one.id() != other.id());
  CHECK(one.interpreter() == 0);
  CHECK(NativeStack(fixture.add(one.id(), kInterpreter, 2)).interpreter() == 1);
  CHECK_FALSE(one.in_handler());
  CHECK(NativeStack(fixture.add(root(300, true), kProgram, 1)).in_handler());
}

TEST_CASE("frames whose values do not fit into a word are never found again") {
  Fixture fixture;
  const NodeId parent = fixture.add(NodeId::kNone, kInterpreter, 1);
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 50;
  CHECK(fixture.add(parent, kProgram, kLarge) != fixture.add(parent, kProgram, kLarge));
  CHECK(fixture.add(parent, ModuleId::kAnonymous, kLarge) == fixture.add(parent, ModuleId::kAnonymous, kLarge));
  CHECK(fixture.add(parent, ModuleId::kAnonymous, 5) != fixture.add(parent, ModuleId::kAnonymous, 5, 1));
}

TEST_CASE("numbers that were given before a module was found to be an interpreter are outdated") {
  Fixture fixture;
  const NodeId outer = fixture.add(NodeId::kNone, kInterpreter, 1);
  const NativeStack before(fixture.add(outer, kLater, 2));
  CHECK(before.interpreter() == 1);
  CHECK_FALSE(fixture.stacks->is_outdated());
  fixture.find(kLater);
  REQUIRE(fixture.stacks->is_outdated());
  fixture.stacks->begin();
  CHECK_FALSE(fixture.stacks->is_outdated());
  const NodeId again = fixture.add(NodeId::kNone, kInterpreter, 1);
  CHECK(NativeStack(again).interpreter() == 1);
  CHECK(NativeStack(fixture.add(again, kLater, 2)).interpreter() == 2);
}
