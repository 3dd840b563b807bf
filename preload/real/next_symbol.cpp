#include "preload/real/next_symbol.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstdint>

#include "preload/real/dynamic_symbols.h"
#include "preload/sys/loader.h"

namespace heapprof::real {

namespace {

/// For objects that cannot be unloaded.
struct DirectReader {
  template <typename T>
  bool read(const T* from, T& to) const noexcept {
    to = *from;
    return true;
  }
};

/// The first object of the loader's list: the program. Null without a loader.
const link_map* first_object() noexcept { return sys::loader() == nullptr ? nullptr : sys::loader()->r_map; }

/// `bytes`, unless null, receives the function's size, of an IFUNC that of its resolver.
void* find_in(const DynamicSymbols& object, const char* name, std::uint64_t* bytes) noexcept {
  DirectReader reader;
  ElfW(Sym) symbol;
  if (!find_symbol(object, name, reader, symbol)) return nullptr;
  if (bytes != nullptr) *bytes = symbol.st_size;
  const std::uintptr_t address = object.load_bias + symbol.st_value;
  if ((symbol.st_info & 0xf) != STT_GNU_IFUNC) return reinterpret_cast<void*>(address);
  // AArch64 resolvers take these arguments (sys/ifunc.h). Those of other architectures ignore them.
  const std::uint64_t hardware[3] = {sizeof hardware, getauxval(AT_HWCAP), getauxval(AT_HWCAP2)};
  constexpr std::uint64_t kHasSecondArgument = std::uint64_t{1} << 62;
  return reinterpret_cast<void* (*)(std::uint64_t, const std::uint64_t*)>(address)(hardware[1] | kHasSecondArgument,
                                                                                   hardware);
}

void* find_in(const link_map& map, const char* name, std::uint64_t* bytes = nullptr) noexcept {
  DynamicSymbols object;
  DirectReader reader;
  return read_dynamic_symbols(map, reader, object) ? find_in(object, name, bytes) : nullptr;
}

const link_map* this_library() noexcept {
  const link_map* map = first_object();
  while (map != nullptr && map->l_ld != _DYNAMIC) map = map->l_next;
  return map;
}

}  // namespace

void* following_symbol(const char* name, std::uint64_t* bytes) noexcept {
  const link_map* map = this_library();
  while (map != nullptr && (map = map->l_next) != nullptr)
    if (void* found = find_in(*map, name, bytes)) return found;
  return nullptr;
}

void following_symbols(const char* const* names, void** found, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) found[i] = nullptr;
  const link_map* map = this_library();
  while (map != nullptr && (map = map->l_next) != nullptr) {
    DynamicSymbols object;
    DirectReader reader;
    if (!read_dynamic_symbols(*map, reader, object)) continue;
    for (std::size_t i = 0; i < count; ++i)
      if (found[i] == nullptr) found[i] = find_in(object, names[i], nullptr);
  }
}

void* next_symbol(const char* name) noexcept {
  if (void* found = following_symbol(name)) return found;
  const link_map* const self = this_library();
  for (const link_map* map = first_object(); map != self; map = map->l_next)
    if (void* found = find_in(*map, name)) return found;
  return nullptr;
}

void* first_symbol(const char* name) noexcept {
  for (const link_map* map = first_object(); map != nullptr; map = map->l_next)
    if (void* found = find_in(*map, name)) return found;
  return nullptr;
}

bool program_defines(const char* name) noexcept {
  return first_object() != nullptr && find_in(*first_object(), name) != nullptr;
}

}  // namespace heapprof::real
