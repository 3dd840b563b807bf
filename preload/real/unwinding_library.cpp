#include "preload/real/unwinding_library.h"

#include <elf.h>
#include <link.h>

#include <initializer_list>

#include "common/c_string.h"
#include "preload/real/dynamic_symbols.h"
#include "preload/sys/loader.h"
#include "preload/sys/loader_list.h"

namespace heapprof::real {

namespace {

/// Whether the file name in `path` begins with that of an unwinding library.
bool is_unwinding_library(const char* path) noexcept {
  for (const char* prefix : {"libgcc_s.so", "libunwind.so"})
    if (after_prefix(base_name(path), prefix) != nullptr) return true;
  return false;
}

}  // namespace

LibrarySearch find_unwinding_functions(const char* const* names, void** functions, std::size_t count,
                                       sys::GuardedReader& reader) noexcept {
  if (sys::loader() == nullptr) return LibrarySearch::kUnreadable;
  bool found = false;
  const auto find_in_object = [&](const link_map& map) {
    char path[1024];
    DynamicSymbols object;
    if (!reader.read_string(map.l_name, path, sizeof path) || !is_unwinding_library(path) ||
        !read_dynamic_symbols(map, reader, object))
      return;
    for (std::size_t i = 0; i < count; ++i) {
      ElfW(Sym) symbol;
      if (functions[i] != nullptr || !find_symbol(object, names[i], reader, symbol) ||
          (symbol.st_info & 0xf) == STT_GNU_IFUNC)
        continue;
      functions[i] = reinterpret_cast<void*>(object.load_bias + symbol.st_value);
      found = true;
    }
  };
  // A pass fails when another thread's dlclose changes the list during it.
  constexpr unsigned kMaxTries = 4;
  bool complete = false;
  for (unsigned tries = 0; !complete && !found && !reader.refused() && tries != kMaxTries; ++tries)
    complete = sys::visit_loader_list(&sys::loader()->r_map, reader, find_in_object);
  reader.close();
  return found ? LibrarySearch::kFound : complete ? LibrarySearch::kNone : LibrarySearch::kUnreadable;
}

}  // namespace heapprof::real
