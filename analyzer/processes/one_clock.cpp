#include "analyzer/processes/one_clock.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace heapprof::processes {

OneClock one_clock(std::span<const FileHeader> headers) {
  OneClock clock;
  clock.is_calendar = !std::ranges::all_of(headers, [&](const FileHeader& header) {
    return std::memcmp(header.boot_id, headers.front().boot_id, sizeof header.boot_id) == 0;
  });
  for (const FileHeader& header : headers)
    clock.start_ns.push_back(clock.is_calendar ? header.start_realtime_ns : header.start_monotonic_ns);
  const std::uint64_t first = std::ranges::min(clock.start_ns);
  for (std::uint64_t& start : clock.start_ns) start -= first;
  return clock;
}

std::optional<std::uint64_t> length_of(const FileHeader& header) noexcept {
  if (header.end_monotonic_ns <= header.start_monotonic_ns) return std::nullopt;
  return header.end_monotonic_ns - header.start_monotonic_ns;
}

std::vector<std::optional<std::size_t>> copies(std::span<const FileHeader> headers,
                                               std::span<const std::uint64_t> file_bytes) {
  const auto rank = [&](std::size_t i) {
    return std::tuple(file_bytes[i] >= headers[i].file_bytes, headers[i].end_monotonic_ns != 0,
                      headers[i].end_monotonic_ns, file_bytes[i]);
  };
  std::map<std::uint64_t, std::size_t> best;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto [at, is_new] = best.try_emplace(headers[i].file_id, i);
    if (!is_new && rank(i) > rank(at->second)) at->second = i;
  }
  std::vector<std::optional<std::size_t>> of(headers.size());
  for (std::size_t i = 0; i < headers.size(); ++i)
    if (const std::size_t original = best.at(headers[i].file_id); original != i) of[i] = original;
  return of;
}

}  // namespace heapprof::processes
