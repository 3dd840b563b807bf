#include "preload/hooks/next_symbol.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "preload/sys/kernel.h"

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

Symbols symbols_of(const link_map& object) noexcept {
  Symbols result;
  result.base = object.l_addr;
  if (object.l_ld == nullptr) return result;
  for (const ElfW(Dyn)* entry = object.l_ld; entry->d_tag != DT_NULL; ++entry) {
    // glibc has made these absolute, but where the section is read-only, as the vDSO's.
    std::uintptr_t address = entry->d_un.d_ptr;
    if (address < result.base) address += result.base;
    switch (entry->d_tag) {
      case DT_SYMTAB: result.symbols = reinterpret_cast<const ElfW(Sym)*>(address); break;
      case DT_STRTAB: result.names = reinterpret_cast<const char*>(address); break;
      case DT_VERSYM: result.versions = reinterpret_cast<const ElfW(Versym)*>(address); break;
      case DT_GNU_HASH: result.gnu_hash = reinterpret_cast<const std::uint32_t*>(address); break;
      case DT_HASH: result.sysv_hash = reinterpret_cast<const std::uint32_t*>(address); break;
      default: break;
    }
  }
  return result;
}

bool equal(const char* a, const char* b) noexcept {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}

/// Defined, a function, and not one of the old versions kept for old programs (hidden bit of its version).
bool matches(const Symbols& object, std::uint32_t index, const char* name) noexcept {
  const ElfW(Sym)& symbol = object.symbols[index];
  const unsigned type = symbol.st_info & 0xf;
  if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0) return false;
  if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return false;
  if (object.versions != nullptr && (object.versions[index] & 0x8000) != 0) return false;
  return equal(object.names + symbol.st_name, name);
}

std::uint32_t find_by_gnu_hash(const Symbols& object, const char* name) noexcept {
  std::uint32_t hash = 5381;
  for (const char* at = name; *at != '\0'; ++at) hash = hash * 33 + static_cast<unsigned char>(*at);
  const std::uint32_t bucket_count = object.gnu_hash[0];
  const std::uint32_t first_symbol = object.gnu_hash[1];
  const std::uint32_t bloom_words = object.gnu_hash[2];
  if (bucket_count == 0) return 0;
  const auto* bloom = reinterpret_cast<const ElfW(Addr)*>(object.gnu_hash + 4);
  const auto* buckets = reinterpret_cast<const std::uint32_t*>(bloom + bloom_words);
  const std::uint32_t* chain = buckets + bucket_count;
  std::uint32_t index = buckets[hash % bucket_count];
  if (index < first_symbol) return 0;
  for (;; ++index) {
    const std::uint32_t entry = chain[index - first_symbol];
    if ((entry | 1) == (hash | 1) && matches(object, index, name)) return index;
    if ((entry & 1) != 0) return 0;
  }
}

std::uint32_t find_by_sysv_hash(const Symbols& object, const char* name) noexcept {
  std::uint32_t hash = 0;
  for (const char* at = name; *at != '\0'; ++at) {
    hash = (hash << 4) + static_cast<unsigned char>(*at);
    hash ^= hash >> 24 & 0xf0;
    hash &= 0x0fffffff;
  }
  const std::uint32_t bucket_count = object.sysv_hash[0];
  if (bucket_count == 0) return 0;
  const std::uint32_t* chain = object.sysv_hash + 2 + bucket_count;
  for (std::uint32_t index = object.sysv_hash[2 + hash % bucket_count]; index != 0; index = chain[index])
    if (matches(object, index, name)) return index;
  return 0;
}

void* find_in(const link_map& map, const char* name) noexcept {
  const Symbols object = symbols_of(map);
  if (object.symbols == nullptr || object.names == nullptr) return nullptr;
  std::uint32_t index = 0;
  if (object.gnu_hash != nullptr) {
    index = find_by_gnu_hash(object, name);
  } else if (object.sysv_hash != nullptr) {
    index = find_by_sysv_hash(object, name);
  }
  if (index == 0) return nullptr;
  const std::uintptr_t address = object.base + object.symbols[index].st_value;
  if ((object.symbols[index].st_info & 0xf) != STT_GNU_IFUNC) return reinterpret_cast<void*>(address);
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

/// Copies what may have gone away. False when it has.
bool read_own(const void* from, void* to, std::size_t bytes) noexcept {
  const iovec local{to, bytes};
  const iovec remote{const_cast<void*>(from), bytes};
  return sys::call(SYS_process_vm_readv, sys::process_id(), sys::word(&local), 1, sys::word(&remote), 1) ==
         static_cast<long>(bytes);
}

/// Copies a text, page by page as far as needed. False when it is longer than the buffer or has gone.
bool read_own_text(const char* from, char* to, std::size_t size) noexcept {
  constexpr std::size_t kPage = 4096;
  for (std::size_t length = 0; length < size;) {
    std::size_t bytes = kPage - reinterpret_cast<std::uintptr_t>(from + length) % kPage;
    if (bytes > size - length) bytes = size - length;
    if (!read_own(from + length, to + length, bytes)) return false;
    for (; bytes != 0; --bytes)
      if (to[length++] == '\0') return true;
  }
  return false;
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

void* unwinder_symbol(const char* name) noexcept {
  if (&_r_debug == nullptr) return nullptr;
  link_map map;
  for (const link_map* at = _r_debug.r_map; at != nullptr; at = map.l_next) {
    if (!read_own(at, &map, sizeof map)) return nullptr;
    char path[1024];
    if (!read_own_text(map.l_name, path, sizeof path) || !is_unwinder(path)) continue;
    // Whoever registers frames uses this object, so it stays.
    if (void* found = find_in(map, name)) return found;
  }
  return nullptr;
}

}  // namespace heapprof::hooks
