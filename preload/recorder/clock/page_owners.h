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
///   bits 0-31   the owner: a StreamId, kNobody or kEverybody (the page is shared)
///   bits 32-35  level: the page's next time of being shared lasts kFirstSharedPeriod << level
///   bit 36      large: the page has had the begin of a block of kLargeBlockBytes or more
///   bits 37-63  stamp: when the owner took the page, or until when it is shared, in units of 2^g_stamp_shift ticks,
///               without the higher bits
using PageWord = std::uint64_t;
inline constexpr std::uint32_t kNobody = 0;
inline constexpr std::uint32_t kEverybody = ~std::uint32_t{0};
inline constexpr unsigned kLevelBit = 32;
inline constexpr PageWord kPageLevels = PageWord{15} << kLevelBit;
inline constexpr PageWord kPageLarge = PageWord{1} << 36;
inline constexpr unsigned kStampBit = 37;

constexpr std::uint32_t owner_of(PageWord word) noexcept { return static_cast<std::uint32_t>(word); }

inline constexpr std::size_t kPageWords = std::size_t{1} << 16;
/// Zero-initialized, so that the kernel provides memory only for the parts that are used. The last element is never
/// used (page_word).
[[gnu::visibility("hidden")]] extern PageWord g_page_words[kPageWords + 1];
[[gnu::visibility("hidden")]] extern unsigned g_stamp_shift;

/// Allocations of this size and the frees of their pages' blocks read the clock for each event, so that sums of large
/// blocks are right at any time (within a run, the order of events of different addresses is lost).
inline constexpr std::size_t kLargeBlockBytes = 1024;

enum class PageEvent : std::uint8_t {
  kSmallAllocation,  ///< of less than kLargeBlockBytes
  kLargeAllocation,
  kFree,  ///< or anything else with an existing block
};
constexpr PageEvent allocation_of(std::size_t bytes) noexcept {
  return bytes < kLargeBlockBytes ? PageEvent::kSmallAllocation : PageEvent::kLargeAllocation;
}

/// Whether an event reads the clock although its stream owns the page.
constexpr bool needs_own_time(PageWord word, PageEvent event) noexcept {
  return event == PageEvent::kLargeAllocation || (event == PageEvent::kFree && (word & kPageLarge) != 0);
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

/// Whether the page is shared, and its time of being shared has not ended at `now`.
inline bool is_shared_at(PageWord word, Ticks now) noexcept {
  const PageWord stamp_now = tick_count(now) >> g_stamp_shift << kStampBit;
  return owner_of(word) == kEverybody && static_cast<std::int64_t>(word - stamp_now) >= 0;
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
  return owner_of(word) == static_cast<std::uint32_t>(self) && !needs_own_time(word, event);
}

/// time_at_page() where owns_page() is false, if the page is shared, or is owned and the event needs its own time.
/// Otherwise the result is false; `time`, the stream's last time before, may have been advanced.
[[gnu::always_inline]] inline bool time_at_shared_page(StreamId self, Ticks& time, const void* address,
                                                       PageEvent event) noexcept {
  const std::uint32_t before = owner_of(load_page_word(address, time));
  if (before != kEverybody && before != static_cast<std::uint32_t>(self)) return false;
  const Ticks now = g_clock.now();
  if (time < now) time = now;
  const PageWord word = load_page_word(address, time);
  if (event == PageEvent::kLargeAllocation && (word & kPageLarge) == 0) return false;
  return owner_of(word) == static_cast<std::uint32_t>(self) || is_shared_at(word, now);
}

/// Takes all pages from their owners: every later event of any stream at any address has a time that was read from
/// the clock after this call began.
void disown_pages() noexcept;

/// Forgets all pages, while there is one thread.
void forget_pages() noexcept;

/// Sets the unit of the stamps. Call it after g_clock.start().
void start_page_stamps() noexcept;

}  // namespace heapprof::recorder
