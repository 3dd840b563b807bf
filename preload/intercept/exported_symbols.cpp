#include "preload/intercept/exported_symbols.h"

#include "common/c_string.h"
#include "preload/intercept/name_search.h"

namespace heapprof::intercept {

bool ExportedSymbols::open(const link_map& map) noexcept {
  if (!real::read_dynamic_symbols(map, reader_, object_) || object_.gnu_hash == nullptr ||
      !reader_.read(reinterpret_cast<const Header*>(object_.gnu_hash), header_))
    return false;
  const std::uint32_t words = header_.bloom_words;
  if (header_.bucket_count == 0 || words == 0 || (words & (words - 1)) != 0 || header_.bloom_shift >= 32)
    return false;
  return read_hash_table();
}

/// The object's memory itself, if it may be read directly, or a copy in scratch_. Null: it cannot be read.
const char* ExportedSymbols::read_table(const char* from, std::uint64_t bytes) noexcept {
  constexpr std::uintptr_t kAlignment = 8;
  if (bytes <= kMaxTableBytes && reinterpret_cast<std::uintptr_t>(from) % kAlignment == 0)
    if (const void* const there = reader_.view(from, bytes)) return static_cast<const char*>(there);
  char* const copy = scratch_.reserve(bytes);
  return copy != nullptr && reader_.read(from, copy, bytes) ? copy : nullptr;
}

/// Reads the table up to the first symbol of the last chain.
bool ExportedSymbols::read_hash_table() noexcept {
  const std::uint64_t bloom_bytes = std::uint64_t{header_.bloom_words} * sizeof *bloom_;
  const std::uint64_t bucket_bytes = std::uint64_t{header_.bucket_count} * sizeof *buckets_;
  const std::uint64_t bytes = bloom_bytes + bucket_bytes;
  const char* const begin = reinterpret_cast<const char*>(object_.gnu_hash) + sizeof header_;
  const auto read = [&](std::uint64_t size) noexcept {
    const char* const memory = read_table(begin, size);
    if (memory == nullptr) return false;
    bloom_ = reinterpret_cast<const std::uint64_t*>(memory);
    buckets_ = reinterpret_cast<const std::uint32_t*>(memory + bloom_bytes);
    chains_ = buckets_ + header_.bucket_count;
    return true;
  };
  if (!read(bytes)) return false;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < header_.bucket_count; ++i) last = buckets_[i] > last ? buckets_[i] : last;
  chains_in_object_ = reinterpret_cast<const std::uint32_t*>(begin + bytes);
  if (last < header_.first_symbol) return true;
  chain_count_ = std::uint64_t{last} - header_.first_symbol + 1;
  return read(bytes + chain_count_ * sizeof *chains_);
}

bool ExportedSymbols::read_symbol(std::uint32_t index, ElfW(Sym) & symbol, char* name) noexcept {
  if (!reader_.read(object_.symbols + index, symbol)) return false;
  if (reader_.read_string(object_.names + symbol.st_name, name, kNameBytes)) return true;
  name[kNameBytes - 1] = '\0';
  return true;
}

/// Compares the names of undefined symbols, if the tables may be read directly. They are a small part of the table,
/// which has the names of the object's own symbols, too, and without lazy binding the loader has just read them, to
/// find the definitions. Returns false when the tables have to be copied.
bool ExportedSymbols::find_imports_directly(const char* const* names, std::size_t count, bool* imported) noexcept {
  const std::uint64_t name_bytes = object_.names_size;
  if (reinterpret_cast<std::uintptr_t>(object_.symbols) % alignof(ElfW(Sym)) != 0) return false;
  const auto* const symbols = static_cast<const ElfW(Sym)*>(
      reader_.view(object_.symbols, std::uint64_t{header_.first_symbol} * sizeof(ElfW(Sym))));
  const auto* const texts = static_cast<const char*>(reader_.view(object_.names, name_bytes));
  if (symbols == nullptr || texts == nullptr) return false;
  std::size_t bytes[kMaxImports] = {};  // with the NUL
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = text_length(names[i]) + 1;
    imported[i] = false;
  }
  for (std::uint32_t index = 0; index < header_.first_symbol; ++index) {
    const std::uint64_t offset = symbols[index].st_name;
    if (symbols[index].st_shndx != SHN_UNDEF || offset >= name_bytes) continue;
    const char* const text = texts + offset;
    for (std::size_t i = 0; i < count; ++i)
      if (*text == *names[i] && bytes[i] <= name_bytes - offset && __builtin_memcmp(text, names[i], bytes[i]) == 0)
        imported[i] = true;
  }
  return true;
}

bool ExportedSymbols::read_imports(const char* const* names, std::size_t count, bool* imported) noexcept {
  // GNU ld writes 1 if the object exports nothing, however many undefined symbols there are.
  if (header_.first_symbol <= 1 || count > kMaxImports) return false;
  const std::uint64_t symbol_bytes = std::uint64_t{header_.first_symbol} * sizeof(ElfW(Sym));
  const std::uint64_t name_bytes = object_.names_size;
  if (name_bytes == 0) return false;
  if (find_imports_directly(names, count, imported)) return true;
  bloom_ = nullptr;  // the same memory
  char* const copy = scratch_.reserve(symbol_bytes + kNamePieceBytes);
  if (copy == nullptr || !reader_.read(object_.symbols, copy, symbol_bytes)) return false;
  const auto* symbols = reinterpret_cast<const ElfW(Sym)*>(copy);
  std::uint32_t ends[kMaxImports] = {};
  for (std::size_t i = 0; i < count; ++i) {
    ends[i] = last_word_of(names[i]);
    imported[i] = false;
  }
  std::size_t missing = count;
  const bool searched = find_names(
      name_bytes, copy + symbol_bytes,
      [&](char* to, std::size_t bytes, std::uint64_t offset) noexcept {
        return missing != 0 && reader_.read(object_.names + offset, to, bytes);
      },
      [&](std::uint32_t last) noexcept {
        for (std::size_t i = 0; i < count; ++i)
          if (last == ends[i] && !imported[i]) return true;
        return false;
      },
      [&](const char* text, std::uint64_t offset) noexcept {
        for (std::size_t i = 0; i < count; ++i) {
          if (imported[i] || !text_equal(text, names[i])) continue;
          for (std::uint32_t index = 0; index < header_.first_symbol && !imported[i]; ++index)
            imported[i] = symbols[index].st_shndx == SHN_UNDEF && symbols[index].st_name == offset;
          if (imported[i]) --missing;
        }
      });
  return searched || missing == 0;
}

}  // namespace heapprof::intercept
