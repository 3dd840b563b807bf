// Looks a function or a variable up in the symbol hash tables of a loaded object.
//
// The loader's data structures are public ABI: link.h, gABI "Dynamic Linking", and for the GNU hash table
// https://sourceware.org/legacy-ml/binutils/2006-10/msg00377.html. Takes no lock, allocates nothing, and makes no
// system calls except those of the reader. `Reader` has `bool read(const T* from, T& to)`: sys::GuardedReader, or a
// plain copy where the object cannot be unloaded.
#pragma once

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstdint>

namespace heapprof::real {

/// The tables of one object's dynamic section. A pointer is null where the object has no such table.
struct DynamicSymbols {
  std::uintptr_t load_bias = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::uint64_t names_size = 0;  ///< in bytes
  const ElfW(Versym) * versions = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* sysv_hash = nullptr;
};

/// Reads the elements of an array whose length is not known, many at a time: the bytes of an aligned piece are on one
/// page, so that all can be read if one can.
template <typename T>
class Piece {
 public:
  /// The element `at`, until the next call. Null: it cannot be read.
  template <typename Reader>
  const T* read(const T* at, Reader& reader) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    const std::uintptr_t begin = address & ~std::uintptr_t{sizeof(Bytes) - 1};
    if (address % alignof(T) != 0) return nullptr;
    if (address - begin + sizeof(T) > sizeof(Bytes)) {  // the element is in two pieces
      begin_ = 0;
      T* const element = reinterpret_cast<T*>(bytes_.values);
      return reader.read(at, *element) ? element : nullptr;
    }
    if (begin != begin_ && !reader.read(reinterpret_cast<const Bytes*>(begin), bytes_)) return nullptr;
    begin_ = begin;
    return reinterpret_cast<const T*>(bytes_.values + (address - begin));
  }

 private:
  struct Bytes {
    alignas(16) char values[256];
  };
  Bytes bytes_;
  std::uintptr_t begin_ = 0;
};

/// Hash of a name in the GNU hash table. `hash`: that of the text before `name`, if there is one.
constexpr std::uint32_t gnu_hash(const char* name, std::uint32_t hash = 5381) noexcept {
  for (const char* at = name; *at != '\0'; ++at) hash = hash * 33 + static_cast<unsigned char>(*at);
  return hash;
}

/// Finds the symbol tables of `object`. Returns false when it has none, or a read failed.
template <typename Reader>
bool read_dynamic_symbols(const link_map& object, Reader& reader, DynamicSymbols& result) noexcept {
  result.load_bias = object.l_addr;
  if (object.l_ld == nullptr) return false;
  Piece<ElfW(Dyn)> piece;
  for (const ElfW(Dyn)* at = object.l_ld;; ++at) {
    const ElfW(Dyn)* const entry = piece.read(at, reader);
    if (entry == nullptr) return false;
    if (entry->d_tag == DT_NULL) break;
    // glibc has relocated these addresses, except in read-only sections such as the vDSO's.
    std::uintptr_t address = entry->d_un.d_ptr;
    if (address < result.load_bias) address += result.load_bias;
    switch (entry->d_tag) {
      case DT_SYMTAB: result.symbols = reinterpret_cast<const ElfW(Sym)*>(address); break;
      case DT_STRSZ: result.names_size = entry->d_un.d_val; break;
      case DT_STRTAB: result.names = reinterpret_cast<const char*>(address); break;
      case DT_VERSYM: result.versions = reinterpret_cast<const ElfW(Versym)*>(address); break;
      case DT_GNU_HASH: result.gnu_hash = reinterpret_cast<const std::uint32_t*>(address); break;
      case DT_HASH: result.sysv_hash = reinterpret_cast<const std::uint32_t*>(address); break;
      default: break;
    }
  }
  return result.symbols != nullptr && result.names != nullptr;
}

template <typename Reader>
bool text_matches(const char* at, const char* text, Reader& reader) noexcept {
  Piece<char> piece;
  for (;; ++at, ++text) {
    const char* const c = piece.read(at, reader);
    if (c == nullptr || *c != *text) return false;
    if (*c == '\0') return true;
  }
}

/// Sets of symbol types, as bits.
inline constexpr unsigned kFunctions = 1u << STT_FUNC | 1u << STT_GNU_IFUNC | 1u << STT_NOTYPE;
inline constexpr unsigned kFunctionsAndObjects = kFunctions | 1u << STT_OBJECT;

/// Whether symbol `index` is defined, is of one of `types`, and is `name` of the default version. Old versions, which
/// glibc keeps for old programs, have the hidden bit set.
template <typename Reader>
bool is_defined(const DynamicSymbols& object, std::uint32_t index, const char* name, Reader& reader,
                ElfW(Sym) & symbol, unsigned types) noexcept {
  if (!reader.read(object.symbols + index, symbol)) return false;
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return false;
  if ((types >> (symbol.st_info & 0xf) & 1) == 0) return false;
  ElfW(Versym) version = 0;
  if (object.versions != nullptr && !reader.read(object.versions + index, version)) return false;
  return (version & 0x8000) == 0 && text_matches(object.names + symbol.st_name, name, reader);
}

template <typename Reader>
bool find_by_gnu_hash(const DynamicSymbols& object, const char* name, Reader& reader, ElfW(Sym) & symbol,
                      unsigned types) noexcept {
  const std::uint32_t hash = gnu_hash(name);
  struct Header {
    std::uint32_t bucket_count;
    std::uint32_t first_symbol;
    std::uint32_t bloom_words;
  } header;
  if (!reader.read(reinterpret_cast<const Header*>(object.gnu_hash), header) || header.bucket_count == 0)
    return false;
  const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(object.gnu_hash + 4);
  const auto* buckets = reinterpret_cast<const std::uint32_t*>(bloom + header.bloom_words);
  const std::uint32_t* chain = buckets + header.bucket_count;
  std::uint32_t index;
  if (!reader.read(buckets + hash % header.bucket_count, index) || index < header.first_symbol) return false;
  for (;; ++index) {
    std::uint32_t entry;
    if (!reader.read(chain + (index - header.first_symbol), entry)) return false;
    if ((entry | 1) == (hash | 1) && is_defined(object, index, name, reader, symbol, types)) return true;
    if ((entry & 1) != 0) return false;
  }
}

template <typename Reader>
bool find_by_sysv_hash(const DynamicSymbols& object, const char* name, Reader& reader, ElfW(Sym) & symbol,
                       unsigned types) noexcept {
  std::uint32_t hash = 0;
  for (const char* at = name; *at != '\0'; ++at) {
    hash = (hash << 4) + static_cast<unsigned char>(*at);
    hash ^= hash >> 24 & 0xf0;
    hash &= 0x0fffffff;
  }
  std::uint32_t bucket_count;
  if (!reader.read(object.sysv_hash, bucket_count) || bucket_count == 0) return false;
  const std::uint32_t* chain = object.sysv_hash + 2 + bucket_count;
  std::uint32_t index;
  if (!reader.read(object.sysv_hash + 2 + hash % bucket_count, index)) return false;
  // A damaged chain may be a circle. The loader follows only those of the names that it needs.
  constexpr unsigned kMaxSymbols = 1u << 16;
  for (unsigned i = 0; index != 0 && i != kMaxSymbols; ++i) {
    if (is_defined(object, index, name, reader, symbol, types)) return true;
    if (!reader.read(chain + index, index)) return false;
  }
  return false;
}

/// Finds `name` among the object's symbols of these types. Returns false when there is none, or a read failed.
template <typename Reader>
bool find_symbol(const DynamicSymbols& object, const char* name, Reader& reader, ElfW(Sym) & symbol,
                 unsigned types = kFunctions) noexcept {
  if (object.gnu_hash != nullptr) return find_by_gnu_hash(object, name, reader, symbol, types);
  return object.sysv_hash != nullptr && find_by_sysv_hash(object, name, reader, symbol, types);
}

}  // namespace heapprof::real
