// mmap, munmap, mremap and the program break.
#include <sys/auxv.h>
#include <sys/mman.h>

#include "preload/recorder/clock/tick.h"
#include "preload/recorder/event_path.h"
#include "preload/recorder/process/settings.h"
#include "preload/sys/huge_pages.h"

namespace heapprof::recorder {

namespace {

/// The kernel maps and unmaps full pages, whatever size it is given. `flags`: those of mmap.
std::size_t round_up_to_pages(std::size_t size, int flags = 0) noexcept {
  std::size_t page = getauxval(AT_PAGESZ);
  if ((flags & MAP_HUGETLB) != 0) [[unlikely]] {
    constexpr int kShift = 26, kMask = 63;  // MAP_HUGE_SHIFT, MAP_HUGE_MASK
    const int log2 = flags >> kShift & kMask;
    page = log2 != 0 ? std::size_t{1} << log2 : sys::huge_page_bytes();
  }
  return (size + page - 1) & ~(page - 1);
}

/// The host has unmapped the range, or may have. forget_range() before that is not enough: until the pages are
/// unmapped, another thread may probe them and remember that they can be read.
void range_unmapped(const void* address, std::size_t size) noexcept {
  unwind::invalidate_stack_region(reinterpret_cast<std::uint64_t>(address), size);
}

/// In a pause: removes what was mapped in the range before the pause, because something has replaced it that is not
/// recorded.
void append_replaced(ThreadState& thread, const void* address, std::size_t bytes) noexcept {
  append(thread, Op::kUnmapBegin, time_of_other_event(thread), address, bytes, 0);
  append(thread, Op::kUnmapEnd, time_of_other_event(thread), nullptr, 0, 0);
}

}  // namespace

void forget_range(const void* address, std::size_t size, int flags) noexcept {
  forget_tick_word_in(address, round_up_to_pages(size, flags));
  // Also if this thread's events are not recorded: others may have stacks there.
  unwind::invalidate_stack_region(reinterpret_cast<std::uint64_t>(address), size);
}

void mapped(const void* address, std::size_t size, int protection, int flags, const EntryRegisters& entry) noexcept {
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap && !paused()) {
    const std::uint32_t node = capture(*thread, entry);
    const std::uint32_t kind = ((flags & MAP_ANONYMOUS) != 0 ? kMapAnonymous : 0) |
                               (t_local.allocator_depth != 0 ? kMapFromAllocator : 0) |
                               (protection == PROT_NONE ? kMapReserve : 0);
    append(*thread, Op::kMap, time_of_other_event(*thread), address, round_up_to_pages(size, flags), node, kind);
  } else if (g_settings.mmap && (flags & MAP_FIXED) != 0) {
    append_replaced(*thread, address, round_up_to_pages(size, flags));
  } else if (paused()) {
    pass_paused_event(*thread);
  }
  leave(*thread);
}

void unmap_begin(const void* address, std::size_t size, const EntryRegisters& entry) noexcept {
  if (python::is_on() && python::begins_to_free_frames(entry.pc)) [[unlikely]]
    wait_until_others_left();
  forget_range(address, size);
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap)
    append(*thread, Op::kUnmapBegin, time_of_other_event(*thread), address, round_up_to_pages(size), 0);
  leave(*thread);
}

void unmap_end(const void* address, std::size_t size, bool succeeded) noexcept {
  if (succeeded) range_unmapped(address, size);
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap)
    append(*thread, succeeded ? Op::kUnmapEnd : Op::kUnmapFailed, time_of_other_event(*thread), nullptr, 0, 0);
  leave(*thread);
}

void remap_begin(const void* old_address, std::size_t old_size, const EntryRegisters&) noexcept {
  forget_range(old_address, old_size);
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap)
    append(*thread, Op::kRemapBegin, time_of_other_event(*thread), old_address, round_up_to_pages(old_size), 0);
  leave(*thread);
}

void remap_end(const void* old_address, std::size_t old_size, const void* new_address, std::size_t new_size,
               const EntryRegisters& entry) noexcept {
  // Also if the call has failed: the kernel may have unmapped the end of a range that was to shrink (MREMAP_FIXED).
  range_unmapped(old_address, old_size);
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  if (g_settings.mmap) {
    if (new_address == nullptr) {
      append(*thread, Op::kRemapFailed, time_of_other_event(*thread), nullptr, 0, 0);
    } else if (paused()) {
      append(*thread, Op::kRemapEnd, time_of_other_event(*thread), nullptr, 0, 0);
      append_replaced(*thread, new_address, round_up_to_pages(new_size));
    } else {
      const std::uint32_t node = capture(*thread, entry);
      append(*thread, Op::kRemapEnd, time_of_other_event(*thread), new_address, round_up_to_pages(new_size), node);
    }
  }
  leave(*thread);
}

void break_moved(const void* old_break, const void* new_break, const EntryRegisters& entry) noexcept {
  const auto begin = reinterpret_cast<std::uint64_t>(new_break), end = reinterpret_cast<std::uint64_t>(old_break);
  const bool unmaps = begin < end;
  if (unmaps) range_unmapped(new_break, end - begin);
  ThreadState* thread = enter();
  if (thread == nullptr) return;
  // As munmap, it is recorded also while recording is paused: the range may have been mapped before.
  if (g_settings.mmap && (unmaps || !paused())) {
    const std::uint32_t node = capture(*thread, entry);
    append(*thread, Op::kBrk, time_of_other_event(*thread), new_break, end, node);
  } else if (paused()) {
    pass_paused_event(*thread);
  }
  leave(*thread);
}

}  // namespace heapprof::recorder
