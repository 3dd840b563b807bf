#include "preload/recorder/clock/tick.h"

#include <time.h>

#include <cstddef>

#include "preload/sys/proc_maps.h"

namespace heapprof::recorder {

namespace {

constexpr std::uint64_t kStopped = 0;
/// Of the first page, which in all kernels so far has the data of all clocks.
constexpr std::size_t kSearched = 2048;
/// A tick may come while the page is searched.
constexpr int kTries = 3;

}  // namespace

constinit const std::uint64_t* g_tick = &kStopped;

bool tick_is_known() noexcept { return g_tick != &kStopped; }

void forget_tick_in(const void* begin, std::uint64_t bytes) noexcept {
  const std::uint64_t* const word = __atomic_load_n(&g_tick, __ATOMIC_RELAXED);
  if (reinterpret_cast<std::uint64_t>(word) - reinterpret_cast<std::uint64_t>(begin) < bytes && word != &kStopped)
    __atomic_store_n(&g_tick, &kStopped, __ATOMIC_SEQ_CST);
}

void find_tick() noexcept {
  g_tick = &kStopped;
  sys::Mapping mapping;
  if (!sys::find_mapping("[vvar]", mapping) || !mapping.readable) return;
  const auto* const data = reinterpret_cast<const std::uint64_t*>(mapping.begin);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    for (std::size_t i = 0; i + 1 < kSearched / sizeof *data; ++i) {
      if (__atomic_load_n(&data[i], __ATOMIC_RELAXED) != static_cast<std::uint64_t>(time.tv_sec) ||
          __atomic_load_n(&data[i + 1], __ATOMIC_RELAXED) != static_cast<std::uint64_t>(time.tv_nsec))
        continue;
      g_tick = &data[i + 1];
      return;
    }
  }
}

}  // namespace heapprof::recorder
