#include "preload/recorder/clock/page_owners.h"

namespace heapprof::recorder {

alignas(64) constinit PageWord g_page_words[kPageWords + 1] = {};
constinit unsigned g_stamp_shift = 9;

namespace {

/// A stream that has been disturbed this often in one event shares the page for the longest period: its signal
/// handler may take the page back at every instruction.
constexpr unsigned kMaxAttempts = 8;
/// In units of stamps: 2 to 4 us. An owner that loses a page sooner has not saved as many clock readings as taking
/// the page over cost. It is not compared with the period: threads that take turns of 20 us would share a page for
/// ever that they once used together for a moment.
constexpr std::uint64_t kShortTime = 16;
/// About four units in a microsecond.
constexpr std::uint64_t kStampsPerSecond = 4'000'000;

constexpr std::uint64_t level_of(PageWord word) noexcept { return (word & kPageLevels) >> kLevelBit; }

/// `blocks`: a word with the large blocks of the new one.
constexpr PageWord make_word(std::uint32_t owner, std::uint64_t level, std::uint64_t stamp,
                             PageWord blocks) noexcept {
  return owner | (level < kMaxLevel ? level : kMaxLevel) << kLevelBit | (blocks & kLargeBlocks) | stamp << kStampBit;
}

/// The word by which `self` takes the page at `now`, or shares it. `share`: in any case.
PageWord next_word(PageWord word, std::uint32_t self, Ticks now, bool share) noexcept {
  const std::uint64_t level = level_of(word);
  const std::uint64_t stamp = tick_count(now) >> g_stamp_shift;
  if (share) return make_word(kEverybody, level + 1, stamp + (kFirstSharedPeriod << kMaxLevel), word);
  if (owner_of(word) == kNobody || owner_of(word) == kEverybody) return make_word(self, level, stamp, word);
  std::uint64_t held = ((stamp << kStampBit) - (word >> kStampBit << kStampBit)) >> kStampBit;
  if (held >> (63 - kStampBit) != 0) held = 0;  // negative: the page was taken after `now` was read
  if (held < kShortTime) return make_word(kEverybody, level + 1, stamp + (kFirstSharedPeriod << level), word);
  return make_word(self, held < 4 * kShortTime ? level : 0, stamp, word);
}

constexpr Ticks later_of(Ticks a, Ticks b) noexcept { return a > b ? a : b; }

bool replace(PageWord* at, PageWord word, PageWord next) noexcept {
  const bool replaced = __atomic_compare_exchange_n(at, &word, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  arch::complete_stores();
  return replaced;
}

/// The page's word after the event, which changes only what it contains of large blocks. A page that had several
/// keeps that.
PageWord word_after(PageWord word, const void* address, PageEvent event) noexcept {
  const PageWord begin = reinterpret_cast<std::uint64_t>(address) >> 4 << kLargeBlockBit & kLargeBlockAddress;
  switch (event) {
    case PageEvent::kSmallAllocation: return word;
    case PageEvent::kLargeAllocation:
      if ((word & kSeveralLargeBlocks) != 0) return word;
      return (word & kOneLargeBlock) != 0 ? (word & ~kLargeBlocks) | kSeveralLargeBlocks
                                          : word | kOneLargeBlock | begin;
    case PageEvent::kFree: return has_large_block_at(word, address) ? word & ~kLargeBlocks : word;
  }
  return word;
}

}  // namespace

Ticks time_at_page(StreamId self, Ticks last_time, bool clock_read, const void* address, PageEvent event) noexcept {
  const auto me = static_cast<std::uint32_t>(self);
  Ticks time = last_time;
  for (unsigned attempt = 0;; ++attempt) {
    const bool share = attempt >= kMaxAttempts;
    PageWord* const at = page_word(address, time);
    const PageWord word = __atomic_load_n(at, __ATOMIC_RELAXED);
    const bool owned = owner_of(word) == me;
    if ((owned && (clock_read || !needs_own_time(word, address, event))) ||
        (clock_read && (is_shared_at(word, time) || (share && owner_of(word) == kEverybody)))) {
      // The exchange has loaded the word again.
      const PageWord after = word_after(word, address, event);
      if (after == word || replace(at, word, after)) return time;
      continue;
    }
    // The clock is read before a takeover, to decide about sharing, and after it, by rule 1.
    if (clock_read) replace(at, word, next_word(word, me, time, share));
    time = later_of(time, g_clock.now());
    clock_read = true;
  }
}

void disown_pages() noexcept {
  for (PageWord& word : g_page_words) {
    const std::uint32_t owner = owner_of(__atomic_load_n(&word, __ATOMIC_RELAXED));
    if (owner != kNobody && owner != kEverybody) __atomic_fetch_and(&word, ~PageWord{kEverybody}, __ATOMIC_SEQ_CST);
  }
}

void forget_pages() noexcept {
  for (PageWord& word : g_page_words)
    if (word != 0) word = 0;
}

void start_page_stamps() noexcept {
  std::uint64_t ticks_per_second = g_clock.kind() == Clock::kMonotonic ? 1'000'000'000 : arch::cycle_clock_rate();
  if (ticks_per_second == 0) ticks_per_second = 2'400'000'000;  // not known yet; any processor is near enough
  g_stamp_shift = 0;
  while (ticks_per_second >> (g_stamp_shift + 1) >= kStampsPerSecond) ++g_stamp_shift;
}

}  // namespace heapprof::recorder
