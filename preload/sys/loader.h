// The dynamic loader's public data: its list of loaded objects, and whose loader it is.
//
// glibc's loader defines _r_debug. musl's loader is libc itself; it defines a pointer to the same structure, and
// fills the structure before it runs the first constructor (musl, ldso/dynlink.c). Neither the structure's address
// nor its r_map and r_ldbase change afterwards.
#pragma once

#include <link.h>

extern "C" {
[[gnu::weak]] extern r_debug* _dl_debug_addr;  // musl
}
// Weak, so that the library is linked without a loader: ld.so's is GLIBC_2.2.5.
#pragma weak _r_debug

namespace heapprof::sys {

/// Whether the program's libc is musl. Then the loader is libc: it allocates by functions of its own that no hook
/// sees, it never unloads an object, and its code has no unwind information.
inline bool is_musl() noexcept { return &_r_debug == nullptr && &_dl_debug_addr != nullptr; }

/// The loader's data; null: there is no dynamic loader.
inline const r_debug* loader() noexcept {
  return &_r_debug != nullptr ? &_r_debug : is_musl() ? _dl_debug_addr : nullptr;
}

/// The loader's or musl libc's own object on the list; null: it is not there.
inline const link_map* loader_object() noexcept {
  const r_debug* const data = loader();
  const link_map* map = data == nullptr ? nullptr : data->r_map;
  while (map != nullptr && map->l_addr != data->r_ldbase) map = map->l_next;
  return map;
}

/// An address in the program's own file: its dynamic section, when the program was started by executing musl's
/// loader, which leaves AT_PHDR at the loader's own headers; 0: take AT_PHDR.
inline unsigned long musl_program_address() noexcept {
  return is_musl() && loader()->r_map != nullptr ? reinterpret_cast<unsigned long>(loader()->r_map->l_ld) : 0;
}

}  // namespace heapprof::sys
