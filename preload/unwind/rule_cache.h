// Rules by program counter, shared by all threads: direct-mapped, 16 bytes an entry, read and written
// without lock or atomic read-modify-write. An entry is two words, the rule and the rule xor its key, so a
// reader that meets a half-written entry finds a key that is not its own (Hyatt and Mann, "A lockless
// transposition table", ICCA Journal 2002).
//
// Entries are not dropped when modules change. A rule carries its module, and who uses it checks that the
// module was confirmed since the last change (modules.h): code that is on a live stack cannot have been
// replaced since then without passing that check.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/unwind/rule.h"

namespace heapprof::unwind {

class RuleCache {
 public:
  static constexpr std::size_t kEntries = 1u << 15;
  static constexpr std::size_t kBytes = kEntries * 16;

  /// A program counter, and whether it is the next instruction (interrupted) or a return address.
  static constexpr std::uint64_t key(std::uint64_t pc, bool exact) noexcept { return pc << 1 | exact; }

  /// Maps the table; false when there is no memory.
  bool start() noexcept;

  /// The rule stored under `key`, or one of kind kNone.
  Rule find(std::uint64_t key) const noexcept {
    const Entry& entry = entries_[index(key)];
    const std::uint64_t rule = entry.rule.load(std::memory_order_relaxed);
    const std::uint64_t check = entry.check.load(std::memory_order_relaxed);
    return Rule{(rule ^ check) == key ? rule : 0};
  }

  void store(std::uint64_t key, Rule rule) noexcept {
    Entry& entry = entries_[index(key)];
    entry.rule.store(rule.bits(), std::memory_order_relaxed);
    entry.check.store(rule.bits() ^ key, std::memory_order_relaxed);
  }

  /// Removes every rule of `module`. Reads the whole table.
  void forget(ModuleId module) noexcept;

 private:
  struct Entry {
    std::atomic<std::uint64_t> rule;
    std::atomic<std::uint64_t> check;
  };
  static_assert(sizeof(Entry) == 16);

  static constexpr std::size_t index(std::uint64_t key) noexcept {
    return key * 0x9e3779b97f4a7c15 >> (64 - 15);
  }
  static_assert(kEntries == 1u << 15);

  Entry* entries_ = nullptr;
};

}  // namespace heapprof::unwind
