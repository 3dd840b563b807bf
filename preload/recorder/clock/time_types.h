// Times of events. Ticks are a distinct type, so that they cannot be confused with nanoseconds. Slots and headers
// store tick_count().
#pragma once

#include <cstdint>

namespace heapprof::recorder {

/// A moment in ticks of the trace's clock since the recorder's start, or a span of such ticks. The trace's header
/// defines the clock (Clock in common/trace_format.h).
enum class Ticks : std::uint64_t {};

constexpr std::uint64_t tick_count(Ticks ticks) noexcept { return static_cast<std::uint64_t>(ticks); }
constexpr Ticks operator+(Ticks a, Ticks b) noexcept { return Ticks{tick_count(a) + tick_count(b)}; }
constexpr Ticks operator-(Ticks a, Ticks b) noexcept { return Ticks{tick_count(a) - tick_count(b)}; }

}  // namespace heapprof::recorder
