// Reads the dynamic loader's list of one namespace while another thread may change it, without the loader's lock.
//
// The loader appends an object by setting its l_prev and the l_next of its predecessor. It removes an object by
// setting the l_next of the predecessor and the l_prev of the successor, which other threads may see in either order,
// and then frees it. free() overwrites the first 32 bytes of a large block, which sets l_ld and l_next to null
// (glibc, malloc/malloc.c, fd_nextsize). A freed object can therefore end the list early or point to other memory. So
// a copy of an object is accepted only if the predecessor still links to the object afterwards. If the predecessor
// has been freed too but is unchanged, only the contents show that the object itself has been freed.
#pragma once

#include <link.h>

#include <cstddef>

namespace heapprof::sys {

/// Copies the object `at`, to which the object `before` links; `before` is null for the first object. `reader` is a
/// GuardedReader or a test's. Returns false when the object cannot be read or may not be on the list any more.
template <typename Reader>
bool read_linked(const link_map* const* head, const link_map* before, const link_map* at, Reader& reader,
                 link_map& map) noexcept {
  if (!reader.read(at, map) || map.l_prev != before) return false;
  // Older glibcs leave both 0 in the entry of the loader in another namespace. No other object lacks l_ld.
  if (map.l_ld == nullptr && map.l_addr != 0) return false;
  const link_map* linked = nullptr;
  if (before == nullptr) linked = __atomic_load_n(head, __ATOMIC_ACQUIRE);
  else if (!reader.read(&before->l_next, &linked, sizeof linked)) return false;
  return linked == at;
}

/// Calls visit(const link_map&) for each object. Returns false when the list could not be read to its end.
template <typename Reader, typename Visit>
bool visit_loader_list(const link_map* const* head, Reader& reader, Visit&& visit) noexcept {
  constexpr std::size_t kMaxSteps = std::size_t{1} << 16;  // freed objects may link in a circle
  link_map map;
  const link_map* before = nullptr;
  const link_map* at = __atomic_load_n(head, __ATOMIC_ACQUIRE);
  for (std::size_t steps = 0; at != nullptr; ++steps, before = at, at = map.l_next) {
    if (steps == kMaxSteps || !read_linked(head, before, at, reader, map)) return false;
    visit(static_cast<const link_map&>(map));
  }
  return true;
}

}  // namespace heapprof::sys
