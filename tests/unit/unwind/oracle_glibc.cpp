// The oracle where there is no libunwind: glibc's backtrace(), which is libgcc's unwinder. It does not distinguish
// return addresses from interrupted program counters, so addresses may differ by one byte.
#include "harness.h"

namespace unwind_test {

std::size_t oracle_frames(const arch::EntryRegisters& entry, std::uint64_t* addresses, std::size_t room) {
  const std::vector<std::uint64_t> stack = glibc_stack(entry);
  for (std::size_t i = 0; i < stack.size() && i < room; ++i) addresses[i] = stack[i];
  return stack.size() < room ? stack.size() : room;
}

bool same_stack(const std::vector<std::uint64_t>& ours, const std::vector<std::uint64_t>& theirs) {
  if (ours.size() != theirs.size()) return false;
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (ours[i] - theirs[i] > 1) return false;
  return true;
}

}  // namespace unwind_test
