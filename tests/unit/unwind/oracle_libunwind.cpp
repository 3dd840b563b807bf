// The oracle where there is libunwind: its local interface.
#define UNW_LOCAL_ONLY
#include <dlfcn.h>
#include <libunwind.h>

#include "harness.h"

namespace unwind_test {

namespace {
bool is_code(std::uint64_t pc) {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(pc), &info) != 0;
}

/// Addresses are remembered, because dladdr() compares each with all symbols of its module. Other code may be mapped
/// there later, but only libc has trampolines. No memory is allocated: handlers that interrupt malloc call this.
bool is_signal_trampoline(std::uint64_t pc) {
  struct Known {
    std::uint64_t pc;
    bool is_trampoline;
  };
  static thread_local Known all_known[1024];
  Known& known = all_known[pc * 0x9e3779b97f4a7c15 >> 54];
  if (known.pc != pc) known = {pc, is_code(pc) && arch::is_signal_return(reinterpret_cast<const std::uint8_t*>(pc))};
  return known.is_trampoline;
}
}  // namespace

std::size_t oracle_frames(const arch::EntryRegisters& entry, std::uint64_t* addresses, std::size_t room) {
  // Its cache would keep using the tables of libraries that were unloaded.
  static const int policy_set = unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_NONE);
  static_cast<void>(policy_set);
  std::size_t count = 0;
  unw_context_t context;
  unw_cursor_t cursor;
  unw_getcontext(&context);
  unw_init_local(&cursor, &context);
  bool inside = false;
  do {
    unw_word_t pc, sp;
    unw_get_reg(&cursor, UNW_REG_IP, &pc);
    unw_get_reg(&cursor, UNW_REG_SP, &sp);
    if (pc == 0) break;
    if (pc == to_address(entry.pc) && sp == to_address(entry.sp)) inside = true;
    // libunwind 1.6 calls the interrupted frame a signal frame. The address of the signal trampoline below it is not
    // a return address either.
    const bool interrupted = unw_is_signal_frame(&cursor) > 0 || is_signal_trampoline(pc);
    if (inside && count < room) addresses[count++] = interrupted ? pc : pc - 1;
  } while (unw_step(&cursor) > 0);
  return count;
}

bool same_stack(const std::vector<std::uint64_t>& ours, const std::vector<std::uint64_t>& theirs) {
  return ours == theirs;
}

}  // namespace unwind_test
