// The rule cache, compared with a map of what was stored.
#include "preload/unwind/rule_cache.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/seed.h"

using namespace heapprof;
using namespace heapprof::unwind;

namespace {

FrameAddress address_of(std::uint64_t pc, bool interrupted = false) { return {ProgramCounter{pc}, interrupted}; }

Rule rule_of(ModuleId module, std::int64_t words) { return {RuleKind::kSp, module, words}; }

}  // namespace

TEST_CASE("A rule is found until others replace it, and no other rule is found for its address") {
  RuleCache cache;
  REQUIRE(cache.start());
  const auto seed = GENERATE(1u, 2u, 3u);
  std::mt19937_64 random(heapprof::test::seed(seed));
  std::map<std::pair<std::uint64_t, bool>, std::uint64_t> stored;  // bits of the rule
  for (int i = 0; i < 6'000; ++i) {
    // Return addresses of a program of some MB and of libraries far from it.
    const std::uint64_t code = random() % 3 == 0 ? 0x7f1234500000 + (random() % 8 << 24) : 0x400000;
    const std::uint64_t pc = code + random() % (4 << 20);
    const bool interrupted = random() % 50 == 0;
    const Rule rule =
        rule_of(ModuleId{2 + static_cast<std::uint32_t>(random() % 5)}, static_cast<std::int64_t>(random() % 1000));
    cache.store(address_of(pc, interrupted), rule);
    stored[{pc, interrupted}] = rule.bits();
    CHECK(cache.find(address_of(pc, interrupted)).bits() == rule.bits());
    if (stored.count({pc, !interrupted}) == 0)
      CHECK(cache.find(address_of(pc, !interrupted)).kind() == RuleKind::kNone);
  }
  std::size_t found = 0;
  for (const auto& [address, bits] : stored) {
    const Rule rule = cache.find(address_of(address.first, address.second));
    if (rule.kind() == RuleKind::kNone) continue;
    CHECK(rule.bits() == bits);
    ++found;
  }
  CHECK(found > stored.size() * 95 / 100);
  cache.remove(ModuleId{3});
  for (const auto& [address, bits] : stored) {
    const Rule rule = cache.find(address_of(address.first, address.second));
    CHECK((rule.kind() == RuleKind::kNone || rule.module() != ModuleId{3}));
  }
}

TEST_CASE("A cache that begins to use its whole table keeps its rules, except those of code without a module") {
  RuleCache cache;
  REQUIRE(cache.start());
  const auto pc_of = [](std::uint64_t i) { return 0x400000 + i * 1000; };
  const auto module_of = [](std::uint64_t i) { return i % 4 == 0 ? ModuleId::kAnonymous : ModuleId{2}; };
  constexpr std::uint64_t kFirst = RuleCache::kFewRules - 1;
  const auto count_found = [&](ModuleId module) {
    std::size_t found = 0;
    for (std::uint64_t i = 0; i != kFirst; ++i) {
      const Rule rule = cache.find(address_of(pc_of(i)));
      if (rule.kind() == RuleKind::kNone || module_of(i) != module) continue;
      CHECK(rule.bits() == rule_of(module, static_cast<std::int64_t>(i)).bits());
      ++found;
    }
    return found;
  };
  for (std::uint64_t i = 0; i != kFirst; ++i)
    cache.store(address_of(pc_of(i)), rule_of(module_of(i), static_cast<std::int64_t>(i)));
  const std::size_t before = count_found(ModuleId{2});
  CHECK(before > kFirst / 4 * 3 * 8 / 10);
  CHECK(count_found(ModuleId::kAnonymous) > kFirst / 4 * 8 / 10);
  for (std::uint64_t i = 0; i != 3; ++i) cache.store(address_of(0x7f1234567000 + i), rule_of(ModuleId{3}, 1));
  CHECK(count_found(ModuleId{2}) > before * 95 / 100);
  CHECK(count_found(ModuleId::kAnonymous) < kFirst / 4 / 4);  // those whose place is the same
  cache.remove(ModuleId::kAnonymous);
  CHECK(count_found(ModuleId::kAnonymous) == 0);
}

TEST_CASE("Threads that store rules at the same places find the right rule or none") {
  RuleCache cache;
  REQUIRE(cache.start());
  // The addresses of a page of code have a page of the table: 128 sets of two.
  constexpr std::uint64_t kAddresses = 700;
  std::atomic<bool> wrong = false;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      std::mt19937_64 random(heapprof::test::seed(t));
      for (int i = 0; i < 60'000; ++i) {
        const std::uint64_t pc = 0x400000 + random() % kAddresses;
        const auto words = static_cast<std::int64_t>(pc & 0xffff);
        if (random() % 2 == 0) cache.store(address_of(pc), rule_of(ModuleId{2}, words));
        const Rule rule = cache.find(address_of(pc));
        if (rule.kind() != RuleKind::kNone && rule.bits() != rule_of(ModuleId{2}, words).bits()) wrong = true;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_FALSE(wrong);
}
