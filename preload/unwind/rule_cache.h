// The rule cache: rules by program counter, shared by all threads. It consists of sets of two entries of 16 bytes,
// and is read and written without lock or atomic read-modify-write. An entry has two words, the rule and the rule xor
// its key; a reader that finds a half-written entry computes a key that is not the one it looks for (Hyatt and Mann,
// "A lockless transposition table", ICCA Journal 2002). The rules of a page of code are in one page of the table.
//
// A rule that is replaced in the first entry of its set is copied to the second one. Rules of code without a module
// (of JIT compilers) are in second entries only: a copy could bring back a rule that another thread removes
// meanwhile. So that two of them do not evict each other, they have another place, the second entry of the
// neighbouring set, which is in the same cache line. Only find_anywhere() looks there (find_rule_slow() in step.cpp).
//
// Programs with few rules use the first pages of the table only, which are faulted in at once.
//
// Entries stay when modules change. A rule names its module, and its user checks that the module was confirmed since
// the last change (modules.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/unwind/frame_address.h"
#include "preload/unwind/rule.h"

namespace heapprof::unwind {

class RuleCache {
 public:
  static constexpr std::size_t kEntries = 1u << 15;
  static constexpr std::size_t kBytes = kEntries * 16;
  /// A program that stores more rules than this uses the whole table.
  static constexpr std::uint32_t kFewRules = 1024;

  /// Maps the table. Returns false when there is no memory.
  bool start() noexcept;

  /// Returns the rule of `address`, or one of kind kNone.
  Rule find(FrameAddress address) const noexcept {
    const std::uint64_t key = key_of(address);
    const Entry* const set = entries_ + first_of_set(address, last_page_.load(std::memory_order_relaxed));
    const std::uint64_t first = set[0].rule.load(std::memory_order_relaxed);
    if ((first ^ set[0].check.load(std::memory_order_relaxed)) == key) [[likely]]
      return Rule{first};
    const std::uint64_t second = set[1].rule.load(std::memory_order_acquire);  // its check is no older one (put)
    return Rule{(second ^ set[1].check.load(std::memory_order_relaxed)) == key ? second : 0};
  }

  /// The same; finds also a rule of code without a module that is at its other place.
  Rule find_anywhere(FrameAddress address) const noexcept {
    const Rule rule = find(address);
    if (rule.kind() != RuleKind::kNone || !has_had(ModuleId::kAnonymous)) return rule;
    const Entry& other = entries_[other_place(first_of_set(address, last_page_.load(std::memory_order_relaxed)))];
    const std::uint64_t bits = other.rule.load(std::memory_order_acquire);  // as in find()
    return Rule{(bits ^ other.check.load(std::memory_order_relaxed)) == key_of(address) ? bits : 0};
  }

  void store(FrameAddress address, Rule rule) noexcept;

  /// Removes all rules of `module`. Reads all pages in use if any were ever stored.
  void remove(ModuleId module) noexcept;

 private:
  struct Entry {
    std::atomic<std::uint64_t> rule;
    std::atomic<std::uint64_t> check;
  };
  static_assert(sizeof(Entry) == 16);

  static constexpr std::size_t kPageEntries = 2u << 7;
  static_assert(kPageEntries * sizeof(Entry) == 4096);
  // Powers of two.
  static constexpr std::uint64_t kPages = kEntries / kPageEntries;
  static constexpr std::uint64_t kFirstPages = 16;
  static_assert(kFewRules <= kFirstPages * kPageEntries / 4);  // nearly all sets have room for their rules

  static constexpr std::uint64_t bit_of(ModuleId module) noexcept {
    return std::uint64_t{1} << static_cast<std::uint32_t>(module) % 64;
  }
  /// Whether a rule of the module was stored, or one of another module with the same bit.
  bool has_had(ModuleId module) const noexcept {
    return (modules_.load(std::memory_order_relaxed) & bit_of(module)) != 0;
  }
  static constexpr std::uint64_t key_of(FrameAddress address) noexcept {
    return to_address(address.pc) << 1 | address.interrupted;
  }
  /// `last_page`: of those in use.
  static constexpr std::size_t first_of_set(FrameAddress address, std::uint64_t last_page) noexcept {
    constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;  // Fibonacci hashing
    const std::uint64_t pc = to_address(address.pc);
    const std::uint64_t page = ((pc >> 12) * kFactor >> (64 - 7)) & last_page;
    const std::uint64_t set = pc * kFactor >> (64 - 7);
    return (page << 7 | set) * 2;
  }
  static_assert(kPages == 1u << 7);
  /// The second entry of the set beside that which begins at `place`.
  static constexpr std::size_t other_place(std::size_t place) noexcept { return (place ^ 2) + 1; }

  /// Whether the entry has a rule of code without a module that is not the one with this key.
  static bool has_other_anonymous(const Entry& entry, std::uint64_t key) noexcept {
    const Rule rule{entry.rule.load(std::memory_order_relaxed)};
    return rule.kind() != RuleKind::kNone && rule.module() == ModuleId::kAnonymous &&
           (rule.bits() ^ entry.check.load(std::memory_order_relaxed)) != key;
  }

  void put(FrameAddress address, Rule rule, std::uint64_t last_page) noexcept;
  void use_all_pages() noexcept;

  Entry* entries_ = nullptr;
  /// Of those in use: kFirstPages - 1 or kPages - 1.
  std::atomic<std::uint64_t> last_page_ = kFirstPages - 1;
  std::atomic<std::uint32_t> stored_ = 0;   ///< how many rules were stored, at most kFewRules or a few more
  std::atomic<std::uint64_t> modules_ = 0;  ///< bit_of() each module of which a rule was stored, never removed
};

}  // namespace heapprof::unwind
