// Reallocs that have begun and not returned, and the blocks that they were given.
//
// Such a block is live, but not in the table of live blocks. It is freed when the call returns, or before that, when
// another block gets its address: the allocator has freed it then. So no two live blocks have one address.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "analyzer/base/random_seed.h"
#include "analyzer/replay/block_table.h"
#include "analyzer/replay/resolved_event.h"

namespace heapprof::replay {

struct PendingRealloc {
  Block block;                       ///< address 0: it is unknown
  std::uint32_t thread = kNoThread;  ///< that called; kNoThread: it has ended
  bool temporary = false;            ///< if the call freed the block now, it would be a temporary one
  bool freed = false;                ///< another block got the address

  bool is_live() const noexcept { return block.address != 0 && !freed; }
};

/// The live blocks can be found by address: a hash table with chains, in which nearly always nothing is found. Hashes
/// can be chosen (block_table.h): when a chain becomes long, all chains are made anew by a number that nobody knows.
class PendingReallocs {
 public:
  using Number = std::uint32_t;  ///< of a realloc, until it is taken out
  static constexpr Number kNone = 0xffffffff;

  PendingReallocs() { clear(); }

  void clear() {
    entries_.clear();
    first_free_ = kNone;
    live_ = 0;
    set_chains(kMinChains);
  }

  /// Precondition: its block is not live, or no other one with its address is.
  Number add(const PendingRealloc& pending) {
    Number number = first_free_;
    if (number == kNone) {
      number = static_cast<Number>(entries_.size());
      entries_.emplace_back();
    } else {
      first_free_ = entries_[number].next;
    }
    entries_[number].pending = pending;
    if (pending.is_live()) {
      if (++live_ > chains_.size()) link_again(chains_.size() * 2);
      link(number);
    }
    return number;
  }

  PendingRealloc& operator[](Number number) noexcept { return entries_[number].pending; }
  const PendingRealloc& operator[](Number number) const noexcept { return entries_[number].pending; }

  /// Removes the realloc and returns it.
  PendingRealloc take(Number number) {
    if (entries_[number].pending.is_live()) unlink(number);
    entries_[number].next = std::exchange(first_free_, number);
    return entries_[number].pending;
  }

  /// False: no block whose address has this BlockTable::hash_of() is live. Blocks of one cluster have one hash, so it
  /// is true for all of them if it is for one.
  bool can_have(std::uint64_t hash) const noexcept { return chains_[chain_of(hash)] != kNone; }
  /// The realloc whose live block is at the address, or kNone.
  Number find(std::uint64_t address, std::uint64_t hash) const noexcept {
    Number number = chains_[chain_of(hash)];
    while (number != kNone && entries_[number].pending.block.address != address) number = entries_[number].next;
    return number;
  }
  /// Another block got the address. Precondition: the block is live.
  void set_freed(Number number) noexcept {
    unlink(number);
    entries_[number].pending.freed = true;
  }

  /// Calls visit(pending) for each whose block is live, in no order.
  template <typename Visit>
  void for_each_live(Visit&& visit) const {
    for (const Number first : chains_)
      for (Number number = first; number != kNone; number = entries_[number].next) visit(entries_[number].pending);
  }

  /// How many reallocs find() of a block with this hash looks at if it finds none, for tests.
  std::size_t chain_length(std::uint64_t hash) const noexcept {
    std::size_t length = 0;
    for (Number number = chains_[chain_of(hash)]; number != kNone; number = entries_[number].next) ++length;
    return length;
  }

 private:
  static constexpr std::size_t kMinChains = 256;   // a power of two
  static constexpr std::uint32_t kMaxChain = 256;  // by chance it is a few, and 64 more from one cluster

  struct Entry {
    PendingRealloc pending;
    std::uint32_t chain_length = 0;  // at most: itself and those after it
    Number next = kNone;             // in its chain; of an entry that is not used: the next one of these
  };

  std::size_t chain_of(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>(hash * multiplier_ >> shift_);
  }
  void set_chains(std::size_t count) {
    chains_.assign(count, kNone);
    shift_ = 64 - std::countr_zero(count);
  }
  void link(Number number) {
    Entry& entry = entries_[number];
    Number& first = chains_[chain_of(BlockTable::hash_of(entry.pending.block.address))];
    entry.chain_length = first == kNone ? 1 : entries_[first].chain_length + 1;
    entry.next = std::exchange(first, number);
    if (entry.chain_length > kMaxChain && multiplier_ == 1) [[unlikely]] {
      multiplier_ = random_seed() | 3;
      link_again(chains_.size());
    }
  }
  void unlink(Number number) noexcept {
    Number* link = &chains_[chain_of(BlockTable::hash_of(entries_[number].pending.block.address))];
    while (*link != number) link = &entries_[*link].next;
    *link = entries_[number].next;
    --live_;
  }
  void link_again(std::size_t chains) {
    std::vector<Number> linked;
    for (const Number first : chains_)
      for (Number number = first; number != kNone; number = entries_[number].next) linked.push_back(number);
    set_chains(chains);
    for (const Number number : linked) link(number);
  }

  std::vector<Entry> entries_;  // by number
  Number first_free_ = kNone;
  std::size_t live_ = 0;
  std::vector<Number> chains_;    // the first of each
  int shift_ = 0;                 // 64 - log2(chains)
  std::uint64_t multiplier_ = 1;  // odd; 1: no chain was long
};

}  // namespace heapprof::replay
