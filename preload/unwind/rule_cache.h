// The rule cache: rules by program counter, shared by all threads. It is direct-mapped with 16 bytes per entry, and
// read and written without lock or atomic read-modify-write. An entry consists of two words, the rule and the rule
// xor its key; a reader that finds a half-written entry computes a key that is not the one it looks for (Hyatt and
// Mann, "A lockless transposition table", ICCA Journal 2002).
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

  /// Maps the table. Returns false when there is no memory.
  bool start() noexcept;

  /// Returns the rule of `address`, or one of kind kNone.
  Rule find(FrameAddress address) const noexcept {
    const std::uint64_t key = key_of(address);
    const Entry& entry = entries_[index(key)];
    const std::uint64_t rule = entry.rule.load(std::memory_order_relaxed);
    const std::uint64_t check = entry.check.load(std::memory_order_relaxed);
    return Rule{(rule ^ check) == key ? rule : 0};
  }

  void store(FrameAddress address, Rule rule) noexcept {
    const std::uint64_t bit = bit_of(rule.module());
    if ((modules_.load(std::memory_order_relaxed) & bit) == 0) modules_.fetch_or(bit, std::memory_order_relaxed);
    const std::uint64_t key = key_of(address);
    Entry& entry = entries_[index(key)];
    entry.rule.store(rule.bits(), std::memory_order_relaxed);
    entry.check.store(rule.bits() ^ key, std::memory_order_relaxed);
  }

  /// Removes all rules of `module`. Reads the whole table if any were ever stored.
  void remove(ModuleId module) noexcept;

 private:
  struct Entry {
    std::atomic<std::uint64_t> rule;
    std::atomic<std::uint64_t> check;
  };
  static_assert(sizeof(Entry) == 16);

  static constexpr std::uint64_t bit_of(ModuleId module) noexcept {
    return std::uint64_t{1} << static_cast<std::uint32_t>(module) % 64;
  }
  static constexpr std::uint64_t key_of(FrameAddress address) noexcept {
    return to_address(address.pc) << 1 | address.interrupted;
  }
  static constexpr std::size_t index(std::uint64_t key) noexcept { return key * 0x9e3779b97f4a7c15 >> (64 - 15); }
  static_assert(kEntries == 1u << 15);

  Entry* entries_ = nullptr;
  std::atomic<std::uint64_t> modules_ = 0;  ///< bit_of() each module of which a rule was stored, never removed
};

}  // namespace heapprof::unwind
