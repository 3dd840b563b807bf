#include "analyzer/replay/analysis/moments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

namespace heapprof::replay {

std::uint64_t ticks_at(const trace::TickClock& clock, std::uint64_t ns) {
  std::uint64_t low = 0;
  std::uint64_t high = std::uint64_t{1} << 63;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (clock.to_ns(trace::Ticks{middle}) < ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

std::uint64_t ns_of(const Moment& moment, std::uint64_t duration_ns) {
  const double ns = moment.percent ? moment.value / 100 * static_cast<double>(duration_ns) : moment.value * 1e9;
  return ns <= 0 ? 0 : ns >= 9e18 ? 9'000'000'000'000'000'000 : static_cast<std::uint64_t>(std::llround(ns));
}

std::string exact_time(std::uint64_t ns) {
  const auto [unit, unit_ns, digits] = ns >= 1'000'000'000 ? std::tuple("s", std::uint64_t{1'000'000'000}, 9)
                                       : ns >= 1'000'000   ? std::tuple("ms", std::uint64_t{1'000'000}, 6)
                                       : ns >= 1'000       ? std::tuple("us", std::uint64_t{1'000}, 3)
                                                           : std::tuple("ns", std::uint64_t{1}, 0);
  std::string text = std::to_string(ns / unit_ns);
  if (ns % unit_ns != 0) {
    const std::string fraction = std::to_string(ns % unit_ns);
    text += "." + std::string(static_cast<std::size_t>(digits) - fraction.size(), '0') + fraction;
    text.resize(text.find_last_not_of('0') + 1);
  }
  return text + unit;
}

std::string text_of(const Moment& moment, std::uint64_t ns) {
  return moment.text.empty() ? exact_time(ns) : moment.text;
}

std::uint64_t ns_within(const Moment& moment, std::uint64_t duration_ns, const char* option,
                        const trace::TraceFile& file) {
  constexpr std::uint64_t kRounding = 200;
  const std::uint64_t ns = ns_of(moment, duration_ns);
  if (ns > duration_ns + duration_ns / kRounding) {
    // The recording of a program that was killed or still runs has no end time, only a last event.
    const std::string ended_by = file.ended_by();
    const bool known_end = ended_by != "signal" && ended_by != "unknown" && ended_by != "running";
    throw SelectionError(file.input().path() + ": " + option + " " + text_of(moment, ns) + " is after the " +
                         (known_end ? "recording's end" : "last known event") + " at " + exact_time(duration_ns) +
                         "; give at most that, or a percentage (50%)");
  }
  return std::min(ns, duration_ns);
}

}  // namespace heapprof::replay
