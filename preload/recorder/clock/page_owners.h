// The owners of pages of addresses. In a process with several threads, a stream may give an event the time of its
// run, instead of reading the clock (9 to 17 ns), if it owns the page of the event's address. Pages that several
// streams use at once are shared: there, each event reads the clock. docs/concepts/ordering.md explains why the
// events of each address have the right order. That depends on these rules:
//
//   1. A stream that takes a page over reads the clock afterwards, before its next event.
//   2. For each event, the page's word is loaded after every clock reading that the event's time contains. So its
//      address depends on that time, and nothing raises the time between this load and the commit of the event.
//   3. If the page is shared, the clock is read for the event, after the real malloc or before the real free.
//
// A page's word is in a table, which distant pages share: what is said of a page holds for all pages of its word.
// Taking a page over is one atomic compare-and-swap. Every function may be called from any thread and from signal
// handlers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/trace_format.h"
#include "preload/recorder/clock/clock.h"
#include "preload/recorder/clock/time_types.h"

namespace heapprof::recorder {

/// What a page's word contains:
///
///   bits 0-23   the owner: a StreamId below kEverybody, kNobody, or kEverybody (the page is shared)
///   bits 24-27  level: the page's next time of being shared lasts kFirstSharedPeriod << level
///   bits 28-29  the number of blocks of kLargeBlockBytes or more that begin in the page: none, one, or several
///   bits 30-37  bits 4-11 of the address of the only one
///   bits 38-63  stamp: when the owner took the page, or until when it is shared, in units of 2^g_stamp_shift ticks,
///               without the higher bits
using PageWord = std::uint64_t;
inline constexpr std::uint32_t kNobody = 0;
inline constexpr std::uint32_t kEverybody = (1u << 24) - 1;
inline constexpr unsigned kLevelBit = 24;
inline constexpr PageWord kPageLevels = PageWord{15} << kLevelBit;
inline constexpr PageWord kOneLargeBlock = PageWord{1} << 28;
inline constexpr PageWord kSeveralLargeBlocks = PageWord{1} << 29;
inline constexpr unsigned kLargeBlockBit = 30;
inline constexpr PageWord kLargeBlockAddress = PageWord{255} << kLargeBlockBit;
inline constexpr PageWord kLargeBlocks = kOneLargeBlock | kSeveralLargeBlocks | kLargeBlockAddress;
inline constexpr unsigned kStampBit = 38;

constexpr std::uint32_t owner_of(PageWord word) noexcept { return static_cast<std::uint32_t>(word) & kEverybody; }

inline constexpr std::size_t kPageWords = std::size_t{1} << 16;
/// Zero-initialized, so that the kernel provides memory only for the parts that are used. The last element is never
/// used (page_word).
[[gnu::visibility("hidden")]] extern PageWord g_page_words[kPageWords + 1];
[[gnu::visibility("hidden")]] extern unsigned g_stamp_shift;

#ifndef HEAPPROF_LARGE_BLOCK_BYTES  // a test has none, to show what the rule prevents
#define HEAPPROF_LARGE_BLOCK_BYTES 1024
#endif
/// The events of blocks of this size read the clock, so that sums of large blocks are right at any time (within a
/// run, the order of events of different addresses is lost).
inline constexpr std::size_t kLargeBlockBytes = HEAPPROF_LARGE_BLOCK_BYTES;

enum class PageEvent : std::uint8_t {
  kSmallAllocation,  ///< of less than kLargeBlockBytes
  kLargeAllocation,
  kFree,
};
constexpr PageEvent allocation_of(std::size_t bytes) noexcept {
  return bytes < kLargeBlockBytes ? PageEvent::kSmallAllocation : PageEvent::kLargeAllocation;
}

/// Whether the only large block that begins in the page may be the one at `address`.
inline bool has_large_block_at(PageWord word, const void* address) noexcept {
  const PageWord begin = reinterpret_cast<std::uint64_t>(address) >> 4 << kLargeBlockBit & kLargeBlockAddress;
  return (word & (kOneLargeBlock | kLargeBlockAddress)) == (kOneLargeBlock | begin);
}

/// Whether an event reads the clock although its stream owns the page.
inline bool needs_own_time(PageWord word, const void* address, PageEvent event) noexcept {
  if (event == PageEvent::kLargeAllocation) return true;
  if (event == PageEvent::kSmallAllocation || (word & kLargeBlocks) == 0) [[likely]]
    return false;
  return (word & kSeveralLargeBlocks) != 0 || has_large_block_at(word, address);
}

/// The word of the page that contains `address`; to be accessed after `time` was read from the clock. A processor may
/// execute a load before a clock reading that precedes it in the program, even if that is part of an earlier event,
/// but not if the address of the load depends on the clock's value. (Bit 63 of a time is never set.)
///
/// Adjacent pages have adjacent words. Each 256 MB of addresses begin elsewhere in the table.
inline PageWord* page_word(const void* address, Ticks time) noexcept {
  const auto number = reinterpret_cast<std::uint64_t>(address);
  const std::uint64_t index = ((number >> 12) + (number >> 28) * 40'503) % kPageWords;
  return &g_page_words[index + (tick_count(time) >> 63)];
}

inline PageWord load_page_word(const void* address, Ticks time) noexcept {
  return __atomic_load_n(page_word(address, time), __ATOMIC_RELAXED);
}

/// Times of being shared, in units of stamps: 2 to 4 us, and up to 8 to 16 ms. The first one is short, because
/// threads that work one after the other use a page together only for a moment. It doubles each time, so threads that
/// use a page together all the time soon try rarely to own it.
inline constexpr std::uint64_t kFirstSharedPeriod = 16;
inline constexpr std::uint64_t kMaxLevel = 12;

/// Whether the page is shared, and its time of being shared has not ended at `now`. Stamps wrap around after 8 to 17
/// s, so a stamp that is further ahead than the longest time is an old one.
inline bool is_shared_at(PageWord word, Ticks now) noexcept {
  const PageWord stamp_now = tick_count(now) >> g_stamp_shift << kStampBit;
  return owner_of(word) == kEverybody && (word - stamp_now) >> kStampBit <= kFirstSharedPeriod << kMaxLevel;
}

/// Returns the time of an event of the stream `self` at `address`, so that for all events of this address the order
/// of the times is the order of the events. `last_time`: of the stream. `clock_read`: whether last_time contains a
/// clock reading for this event. May take the page over, or share it. The stream's time must be advanced to the
/// result before its next event, and not beyond it before this event is committed.
Ticks time_at_page(StreamId self, Ticks last_time, bool clock_read, const void* address, PageEvent event) noexcept;

/// Whether time_at_page() returns last_time because `self` owns the page. This is the fast path.
[[gnu::always_inline]] inline bool owns_page(StreamId self, Ticks last_time, const void* address,
                                             PageEvent event) noexcept {
  const PageWord word = load_page_word(address, last_time);
  return owner_of(word) == static_cast<std::uint32_t>(self) && !needs_own_time(word, address, event);
}

/// Takes all pages from their owners: every later event of any stream at any address has a time that was read from
/// the clock after this call began.
void disown_pages() noexcept;

/// Forgets all pages, while there is one thread.
void forget_pages() noexcept;

/// Sets the unit of the stamps. Call it after g_clock.start().
void start_page_stamps() noexcept;

}  // namespace heapprof::recorder
