// Finds functions that a loaded object exports by their names' hashes, in the object's memory: its GNU hash table has
// a Bloom filter that excludes most names at once, so that tables of symbols and names are not read.
//
// The layout is that of real/dynamic_symbols.h. All memory is read through a GuardedReader, since another thread may
// unload the object.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/intercept/elf_file.h"
#include "preload/real/dynamic_symbols.h"
#include "preload/sys/guarded_read.h"

namespace heapprof::intercept {

class ExportedSymbols {
 public:
  /// Longer names are cut off.
  static constexpr std::size_t kNameBytes = 128;
  /// Of one call of read_imports().
  static constexpr std::size_t kMaxImports = 4;

  ExportedSymbols(sys::GuardedReader& reader, Scratch& scratch) noexcept : reader_(reader), scratch_(scratch) {}

  /// Finds the tables. Returns false when the object has no GNU hash table, or one that cannot be read.
  bool open(const link_map& map) noexcept;

  /// Calls visit(symbol, name) for each symbol in the hash table with one of these hashes (real::gnu_hash). Returns
  /// false when a part could not be read. Not after read_imports().
  template <typename Visit>
  bool find(const std::uint32_t* hashes, std::size_t count, Visit&& visit) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (!may_have(hashes[i])) continue;
      std::uint32_t index = buckets_[hashes[i] % header_.bucket_count];
      if (index < header_.first_symbol) continue;
      for (bool last = false; !last; ++index) {
        std::uint32_t entry;
        if (!read_chain(index, entry)) return false;
        last = (entry & 1) != 0;
        if ((entry | 1) != (hashes[i] | 1)) continue;
        ElfW(Sym) symbol;
        char name[kNameBytes];
        if (!read_symbol(index, symbol, name)) return false;
        visit(static_cast<const ElfW(Sym)&>(symbol), static_cast<const char*>(name));
      }
    }
    return true;
  }

  /// Stores for each of the `count` names, of 4 to 64 bytes, whether the object refers to it without defining it.
  /// Returns false when a table could not be read.
  bool read_imports(const char* const* names, std::size_t count, bool* imported) noexcept;

 private:
  struct Header {
    std::uint32_t bucket_count;
    std::uint32_t first_symbol;  ///< symbols before it, undefined and local ones, are not in the table
    std::uint32_t bloom_words;   ///< a power of two
    std::uint32_t bloom_shift;
  };

  bool may_have(std::uint32_t hash) const noexcept {
    const std::uint64_t word = bloom_[hash / 64 & (header_.bloom_words - 1)];
    return (word >> hash % 64 & word >> (hash >> header_.bloom_shift) % 64 & 1) != 0;
  }
  const char* read_table(const char* from, std::uint64_t bytes) noexcept;
  bool read_hash_table() noexcept;
  /// The last chain's end is not known, so it is not in the table that was read.
  bool read_chain(std::uint32_t index, std::uint32_t& entry) noexcept {
    const std::uint32_t at = index - header_.first_symbol;
    if (at >= chain_count_) return reader_.read(chains_in_object_ + at, entry);
    entry = chains_[at];
    return true;
  }
  bool read_symbol(std::uint32_t index, ElfW(Sym) & symbol, char* name) noexcept;
  bool find_imports_directly(const char* const* names, std::size_t count, bool* imported) noexcept;

  sys::GuardedReader& reader_;
  Scratch& scratch_;
  real::DynamicSymbols object_;
  Header header_{};
  // In the object, or copies in scratch_ until read_imports() uses it.
  const std::uint64_t* bloom_ = nullptr;
  const std::uint32_t* buckets_ = nullptr;
  const std::uint32_t* chains_ = nullptr;
  std::uint64_t chain_count_ = 0;
  const std::uint32_t* chains_in_object_ = nullptr;
};

}  // namespace heapprof::intercept
