#include "preload/real/next_symbol.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "preload/sys/guarded_read.h"
#include "preload/sys/loader_list.h"

// ld.so's, GLIBC_2.2.5. Weak, so that the link needs no library for it: the loader is always there.
#pragma weak _r_debug

namespace heapprof::hooks {

namespace {

/// What a search needs of an object's dynamic section. Pointers are null where it has no such table.
struct Symbols {
  std::uintptr_t base = 0;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Versym)* versions = nullptr;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* sysv_hash = nullptr;
};

/// Reads objects that stay where they are; the counterpart of sys::GuardedReader.
struct DirectReader {
  template <typename T>
  bool read(const T* from, T& to) const noexcept {
    to = *from;
    return true;
  }
};

template <typename Reader>
bool symbols_of(const link_map& object, Reader& reader, Symbols& result) noexcept {
  result.base = object.l_addr;
  if (object.l_ld == nullptr) return false;
  ElfW(Dyn) entry;
  for (const ElfW(Dyn)* at = object.l_ld;; ++at) {
    if (!reader.read(at, entry)) return false;
    if (entry.d_tag == DT_NULL) break;
    // glibc has made these absolute, but where the section is read-only, as the vDSO's.
    std::uintptr_t address = entry.d_un.d_ptr;
    if (address < result.base) address += result.base;
    switch (entry.d_tag) {
      case DT_SYMTAB: result.symbols = reinterpret_cast<const ElfW(Sym)*>(address); break;
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
bool is_text(const char* at, const char* text, Reader& reader) noexcept {
  for (;; ++at, ++text) {
    char c;
    if (!reader.read(at, c) || c != *text) return false;
    if (c == '\0') return true;
  }
}

/// Defined, a function, and not one of the old versions kept for old programs (hidden bit of its version).
template <typename Reader>
bool matches(const Symbols& object, std::uint32_t index, const char* name, Reader& reader,
             ElfW(Sym)& symbol) noexcept {
  if (!reader.read(object.symbols + index, symbol)) return false;
  const unsigned type = symbol.st_info & 0xf;
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return false;
  if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return false;
  ElfW(Versym) version = 0;
  if (object.versions != nullptr && !reader.read(object.versions + index, version)) return false;
  return (version & 0x8000) == 0 && is_text(object.names + symbol.st_name, name, reader);
}

template <typename Reader>
bool find_by_gnu_hash(const Symbols& object, const char* name, Reader& reader, ElfW(Sym)& symbol) noexcept {
  std::uint32_t hash = 5381;
  for (const char* at = name; *at != '\0'; ++at) hash = hash * 33 + static_cast<unsigned char>(*at);
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
    if ((entry | 1) == (hash | 1) && matches(object, index, name, reader, symbol)) return true;
    if ((entry & 1) != 0) return false;
  }
}

template <typename Reader>
bool find_by_sysv_hash(const Symbols& object, const char* name, Reader& reader, ElfW(Sym)& symbol) noexcept {
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
  while (index != 0) {
    if (matches(object, index, name, reader, symbol)) return true;
    if (!reader.read(chain + index, index)) return false;
  }
  return false;
}

template <typename Reader>
bool find_symbol(const Symbols& object, const char* name, Reader& reader, ElfW(Sym)& symbol) noexcept {
  if (object.gnu_hash != nullptr) return find_by_gnu_hash(object, name, reader, symbol);
  return object.sysv_hash != nullptr && find_by_sysv_hash(object, name, reader, symbol);
}

void* find_in(const link_map& map, const char* name) noexcept {
  Symbols object;
  DirectReader reader;
  ElfW(Sym) symbol;
  if (!symbols_of(map, reader, object) || !find_symbol(object, name, reader, symbol)) return nullptr;
  const std::uintptr_t address = object.base + symbol.st_value;
  if ((symbol.st_info & 0xf) != STT_GNU_IFUNC) return reinterpret_cast<void*>(address);
  // The resolver's arguments are those of AArch64 (sys/ifunc.h); others ignore them.
  const std::uint64_t hardware[3] = {sizeof hardware, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  constexpr std::uint64_t kHasSecondArgument = std::uint64_t{1} << 62;
  return reinterpret_cast<void* (*)(std::uint64_t, const std::uint64_t*)>(address)(hardware[1] | kHasSecondArgument,
                                                                                hardware);
}

const link_map* this_library() noexcept {
  const link_map* map = _r_debug.r_map;
  while (map != nullptr && map->l_ld != _DYNAMIC) map = map->l_next;
  return map;
}

/// Whether a path's last part begins with a name under which an unwinder is found.
bool is_unwinder(const char* path) noexcept {
  const char* base = path;
  for (const char* at = path; *at != '\0'; ++at)
    if (*at == '/') base = at + 1;
  for (const char* prefix : {"libgcc_s.so", "libunwind.so"}) {
    const char* at = base;
    while (*prefix != '\0' && *at == *prefix) ++at, ++prefix;
    if (*prefix == '\0') return true;
  }
  return false;
}

}  // namespace

void* following_symbol(const char* name) noexcept {
  if (&_r_debug == nullptr) return nullptr;
  const link_map* map = this_library();
  while (map != nullptr && (map = map->l_next) != nullptr)
    if (void* found = find_in(*map, name)) return found;
  return nullptr;
}

void* next_symbol(const char* name) noexcept {
  if (void* found = following_symbol(name)) return found;
  if (&_r_debug == nullptr) return nullptr;
  const link_map* const self = this_library();
  for (const link_map* map = _r_debug.r_map; map != self; map = map->l_next)
    if (void* found = find_in(*map, name)) return found;
  return nullptr;
}

void* first_symbol(const char* name) noexcept {
  if (&_r_debug == nullptr) return nullptr;
  for (const link_map* map = _r_debug.r_map; map != nullptr; map = map->l_next)
    if (void* found = find_in(*map, name)) return found;
  return nullptr;
}

bool program_defines(const char* name) noexcept {
  return &_r_debug != nullptr && _r_debug.r_map != nullptr && find_in(*_r_debug.r_map, name) != nullptr;
}

UnwinderSearch find_unwinder(const char* const* names, void** functions, std::size_t count,
                             sys::GuardedReader& reader) noexcept {
  if (&_r_debug == nullptr) return UnwinderSearch::kUnreadable;
  bool found = false;
  const auto find_in_object = [&](const link_map& map) {
    char path[1024];
    Symbols object;
    if (!reader.read_text(map.l_name, path, sizeof path) || !is_unwinder(path) || !symbols_of(map, reader, object))
      return;
    for (std::size_t i = 0; i < count; ++i) {
      ElfW(Sym) symbol;
      if (functions[i] != nullptr || !find_symbol(object, names[i], reader, symbol) ||
          (symbol.st_info & 0xf) == STT_GNU_IFUNC)
        continue;
      functions[i] = reinterpret_cast<void*>(object.base + symbol.st_value);
      found = true;
    }
  };
  // A search is in vain when another thread's dlclose changes the list under it.
  constexpr unsigned kMaxTries = 4;
  bool complete = false;
  for (unsigned tries = 0; !complete && !found && !reader.refused() && tries != kMaxTries; ++tries)
    complete = sys::visit_loader_list(&_r_debug.r_map, reader, find_in_object);
  reader.close();
  return found ? UnwinderSearch::kFound : complete ? UnwinderSearch::kNone : UnwinderSearch::kUnreadable;
}

}  // namespace heapprof::hooks
