// The rule cache, compared with a map of what was stored.
#include "preload/unwind/rule_cache.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/seed.h"
#include "tests/support/single_step.h"

using namespace heapprof;
using namespace heapprof::unwind;

namespace {

FrameAddress address_of(std::uint64_t pc, bool interrupted = false) { return {ProgramCounter{pc}, interrupted}; }

Rule rule_of(ModuleId module, std::int64_t words) { return {RuleKind::kSp, module, words}; }

/// Makes the kernel send SIGSYS to the calling thread, until it ends, in place of faulting in memory
/// (MADV_POPULATE_WRITE). Returns false where that is not possible.
bool trap_populate() {
  constexpr std::uint32_t kPopulateWrite = 23;
  sock_filter code[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_madvise},
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args) + 2 * sizeof(std::uint64_t)},  // the lower half
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, kPopulateWrite},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  sock_fprog filter{sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) == 0;
}

sigjmp_buf g_before_stores;

std::uint64_t distant_pc(std::uint64_t i) { return 0x400000 + i * 1000; }

/// Stores so many rules that the cache begins to use its whole table. Returns whether a signal handler has left that.
[[gnu::noinline]] bool is_abandoned(RuleCache& cache) {
  if (sigsetjmp(g_before_stores, 1) != 0) return true;
  for (std::uint64_t i = 0; i != RuleCache::kFewRules; ++i)
    cache.store(address_of(distant_pc(i)), rule_of(ModuleId{2}, 1));
  return false;
}

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

namespace {

// These three are in one set.
constexpr FrameAddress kRemoved{ProgramCounter{0x40003f}, false};
constexpr FrameAddress kStored{ProgramCounter{0x400098}, false};
constexpr FrameAddress kStoredLater{ProgramCounter{0x400128}, false};

}  // namespace

TEST_CASE("Two rules of code without a module whose addresses have one set do not evict each other") {
  RuleCache cache;
  REQUIRE(cache.start());
  const auto words_of = [](FrameAddress address) {
    return static_cast<std::int64_t>(to_address(address.pc) & 0xffff);
  };
  const auto store = [&](FrameAddress address) {
    cache.store(address, rule_of(ModuleId::kAnonymous, words_of(address)));
  };
  const auto found = [&](FrameAddress address) {
    const Rule rule = cache.find_anywhere(address);
    if (rule.kind() == RuleKind::kNone) return false;
    CHECK(rule.bits() == rule_of(ModuleId::kAnonymous, words_of(address)).bits());
    return true;
  };
  for (int i = 0; i != 3; ++i) {
    store(kRemoved);
    store(kStored);
    CHECK(found(kRemoved));
    CHECK(found(kStored));
  }
  CHECK_FALSE(found(kStoredLater));
  // There is no third place.
  store(kStoredLater);
  CHECK(found(kStoredLater));
  CHECK((found(kRemoved) ? 1 : 0) + (found(kStored) ? 1 : 0) == 1);
  cache.remove(ModuleId::kAnonymous);
  for (const FrameAddress address : {kRemoved, kStored, kStoredLater}) CHECK_FALSE(found(address));
}

#ifdef HEAPPROF_SINGLE_STEP
namespace {

RuleCache* g_cache;
RuleKind g_found;

}  // namespace

TEST_CASE("A removed rule does not come back when another thread stores one in its set meanwhile") {
  {
    RuleCache cache;
    REQUIRE(cache.start());
    for (const FrameAddress address : {kRemoved, kStored, kStoredLater})
      cache.store(address, rule_of(ModuleId{2}, 1));
    REQUIRE(cache.find(kRemoved).kind() == RuleKind::kNone);
  }
  const auto store = [] { g_cache->store(kStoredLater, rule_of(ModuleId{2}, 1)); };
  const auto remove = [] { g_cache->remove(ModuleId::kAnonymous); };
  for (unsigned steps = 0;; ++steps) {
    RuleCache cache;
    REQUIRE(cache.start());
    g_cache = &cache;
    cache.store(kStored, rule_of(ModuleId{2}, 1));
    cache.store(kRemoved, rule_of(ModuleId::kAnonymous, 1));
    REQUIRE(cache.find(kRemoved).kind() == RuleKind::kSp);
    if (!heapprof::test::interrupt_after(steps, store, remove)) {
      CHECK(steps > 10);
      return;
    }
    INFO("interrupted after " << steps << " instructions");
    REQUIRE(cache.find(kRemoved).kind() == RuleKind::kNone);
    REQUIRE(cache.find(kStoredLater).kind() == RuleKind::kSp);
  }
}

TEST_CASE("A removed rule is not found while another thread stores an equal one in its place") {
  const Rule rule = rule_of(ModuleId::kAnonymous, 1);
  const bool at_other_place = GENERATE(false, true);
  const auto store = [rule] { g_cache->store(kStoredLater, rule); };
  const auto find = [] { g_found = g_cache->find_anywhere(kRemoved).kind(); };
  for (unsigned steps = 0;; ++steps) {
    RuleCache cache;
    REQUIRE(cache.start());
    g_cache = &cache;
    if (at_other_place) cache.store(kStored, rule);
    cache.store(kRemoved, rule);
    REQUIRE(cache.find_anywhere(kRemoved).kind() == RuleKind::kSp);
    REQUIRE((cache.find(kRemoved).kind() == RuleKind::kNone) == at_other_place);
    cache.remove(ModuleId::kAnonymous);
    if (at_other_place) cache.store(kStored, rule);
    g_found = RuleKind::kNone;
    const bool interrupted = heapprof::test::interrupt_after(steps, store, find);
    INFO("interrupted after " << steps << " instructions");
    REQUIRE(g_found == RuleKind::kNone);
    REQUIRE(cache.find_anywhere(kRemoved).kind() == RuleKind::kNone);
    REQUIRE(cache.find_anywhere(kStoredLater).kind() == RuleKind::kSp);
    if (!interrupted) {
      CHECK(steps > 10);
      return;
    }
  }
}
#endif

TEST_CASE("A cache uses its whole table also if a signal handler leaves by longjmp while its pages are faulted in") {
  RuleCache cache;
  REQUIRE(cache.start());
  bool trapped = false;
  bool abandoned = false;
  std::thread([&] {
    trapped = trap_populate();
    if (!trapped) return;
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { siglongjmp(g_before_stores, 1); };
    sigaction(SIGSYS, &action, &before);
    abandoned = is_abandoned(cache);
    sigaction(SIGSYS, &before, nullptr);
  }).join();
  if (!trapped) {
    WARN("this system has no filters for system calls");
    return;
  }
  REQUIRE(abandoned);
  // More rules than the first pages have room for.
  constexpr std::uint64_t kRules = 20'000;
  for (std::uint64_t i = 0; i != kRules; ++i) cache.store(address_of(distant_pc(i)), rule_of(ModuleId{2}, 1));
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i != kRules; ++i)
    found += cache.find(address_of(distant_pc(i))).kind() != RuleKind::kNone ? 1 : 0;
  CHECK(found > kRules / 2);
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
