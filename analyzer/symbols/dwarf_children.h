// Visits the children of a DWARF entry (DIE), also of damaged or hostile debug information.
#pragma once

#include <elfutils/libdw.h>

namespace heapprof::symbols {

/// Deeper than any compiler nests entries. Walks recurse to this depth.
inline constexpr int kMaxDwarfDepth = 400;

/// Calls visit(child) until it returns false. Returns false if it did, or if the walk of the whole unit has to end
/// because its entries are damaged. Sets `damaged` if entries were skipped.
///
/// `last_offset` is that of the last visited entry of the walk. Entries are visited in the order of the section only:
/// a sibling reference that leads back ends the walk, so that its time is bounded by the size of the section.
template <typename Visit>
bool for_each_child(Dwarf_Die& parent, Dwarf_Off& last_offset, int depth, bool& damaged, Visit&& visit) {
  if (depth == kMaxDwarfDepth) {
    damaged = true;
    return true;
  }
  Dwarf_Die die;
  if (dwarf_haschildren(&parent) <= 0 || dwarf_child(&parent, &die) != 0) return true;
  for (int more = 0; more == 0; more = dwarf_siblingof(&die, &die)) {
    const Dwarf_Off offset = dwarf_dieoffset(&die);
    if (offset <= last_offset) {
      damaged = true;
      return false;
    }
    last_offset = offset;
    if (!visit(die)) return false;
  }
  return true;
}

}  // namespace heapprof::symbols
