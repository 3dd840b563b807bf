// Reads the loader's list of one namespace while another thread may change it. The loader appends objects (l_prev
// first, then the link to the new one), unlinks them (l_prev of the next one first, then the link to it), and frees
// what it has unlinked. Most of what reads the list holds no lock.
//
// A freed object can end the list, or lead off it: free() overwrites the first 32 bytes of a large block, l_ld and
// l_next with null (glibc, malloc/malloc.c, fd_nextsize). So an object counts as read only if afterwards the object
// before it still leads to it. The one before may have been freed as well, and be unchanged: then the links agree,
// and only the contents show that the object itself is gone.
#pragma once

#include <link.h>

#include <cstddef>

namespace heapprof::sys {

/// Copies the object `at`, which the object `before` leads to; null: the head of the list does. `reader` is a
/// GuardedReader. False when it cannot be read, or is not certainly on the list.
template <typename Reader>
bool read_linked(const link_map* const* head, const link_map* before, const link_map* at, Reader& reader,
                 link_map& map) noexcept {
  if (!reader.read(at, map) || map.l_prev != before) return false;
  // Older glibcs leave both empty in another namespace's entry for the loader. No other object lacks l_ld.
  if (map.l_ld == nullptr && map.l_addr != 0) return false;
  const link_map* linked = nullptr;
  if (before == nullptr) linked = __atomic_load_n(head, __ATOMIC_ACQUIRE);
  else if (!reader.read(&before->l_next, &linked, sizeof linked)) return false;
  return linked == at;
}

/// Calls visit(link_map) for each object. False when the list could not be read to its end.
template <typename Reader, typename Visit>
bool visit_loader_list(const link_map* const* head, Reader& reader, Visit&& visit) noexcept {
  constexpr std::size_t kMaxSteps = std::size_t{1} << 16;  // what has been freed may lead in a circle
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
