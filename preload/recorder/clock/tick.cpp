#include "preload/recorder/clock/tick.h"

#include <cstddef>
#include <ctime>

#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::recorder {

namespace {

constexpr std::uint64_t kNoTick = 0;
/// The word is in the first page: in all kernels so far, that page contains the data of all clocks.
constexpr std::size_t kSearchedBytes = 2048;
/// A tick may happen during a search, which then finds nothing.
constexpr int kMaxSearches = 3;

}  // namespace

constinit const std::uint64_t* g_tick_word = &kNoTick;

bool has_tick_word() noexcept { return g_tick_word != &kNoTick; }

void forget_tick_word_in(const void* begin, std::uint64_t bytes) noexcept {
  const std::uint64_t* const word = __atomic_load_n(&g_tick_word, __ATOMIC_RELAXED);
  if (reinterpret_cast<std::uint64_t>(word) - reinterpret_cast<std::uint64_t>(begin) < bytes && word != &kNoTick)
    __atomic_store_n(&g_tick_word, &kNoTick, __ATOMIC_SEQ_CST);
}

void find_tick_word() noexcept {
  g_tick_word = &kNoTick;
  sys::Mapping mapping;
  // The kernel maps its data before the code that reads it, the vDSO (Linux 6.13: with [vvar_vclock] in between).
  if (!sys::find_mapping("[vvar]", mapping, sys::vdso_address()) || !mapping.readable) return;
  const auto* const data = reinterpret_cast<const std::uint64_t*>(mapping.begin);
  for (int search = 0; search < kMaxSearches; ++search) {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    for (std::size_t i = 0; i + 1 < kSearchedBytes / sizeof *data; ++i) {
      if (__atomic_load_n(&data[i], __ATOMIC_RELAXED) != static_cast<std::uint64_t>(time.tv_sec) ||
          __atomic_load_n(&data[i + 1], __ATOMIC_RELAXED) != static_cast<std::uint64_t>(time.tv_nsec))
        continue;
      g_tick_word = &data[i + 1];
      return;
    }
  }
}

}  // namespace heapprof::recorder
