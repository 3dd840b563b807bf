#include "analyzer/replay/analysis/moments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <vector>

namespace heapprof::replay {
namespace {

/// "a, b, c and 5 more"
std::string listed(const std::vector<std::string>& words, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(words.size(), most); ++i) text += (i == 0 ? "" : ", ") + words[i];
  return words.size() <= most ? text : text + " and " + std::to_string(words.size() - most) + " more";
}

}  // namespace

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

std::string text_of(const Moment& moment, const char* option, std::uint64_t ns) {
  if (!moment.name.empty()) return moment.name;
  return std::string(option) + " " + (moment.text.empty() ? exact_time(ns) : moment.text);
}

std::uint64_t ns_of_mark(const Moment& moment, std::span<const MarkedTime> marks, const trace::TraceFile& file) {
  constexpr std::size_t kMaxListed = 12;
  const std::string begin = file.input().path() + ": ";
  std::vector<std::string> times;
  for (const MarkedTime& mark : marks)
    if (mark.text == moment.mark) times.push_back(exact_time(mark.ns));
  if (times.size() > 1)
    throw SelectionError(begin + std::to_string(times.size()) + " marks have the text '" + moment.mark +
                         "'; give the time of one: " + listed(times, kMaxListed));
  if (times.empty()) {
    std::vector<std::string> texts;
    for (const MarkedTime& mark : marks) texts.push_back("'" + mark.text + "' (" + exact_time(mark.ns) + ")");
    throw SelectionError(begin + "no mark has the text '" + moment.mark + "'; " +
                         (texts.empty() ? "the recording has no marks, so give a time such as 2.5 (seconds) or 40%"
                                        : "the recording's marks are " + listed(texts, kMaxListed)));
  }
  const auto found = std::ranges::find(marks, moment.mark, &MarkedTime::text);
  return found->ns;
}

std::uint64_t ns_within(const Moment& moment, std::uint64_t duration_ns, const char* option,
                        const trace::TraceFile& file) {
  constexpr std::uint64_t kRounding = 200;
  const std::uint64_t ns = ns_of(moment, duration_ns);
  if (ns > duration_ns + duration_ns / kRounding) {
    // The recording of a program that was killed or still runs has no end time, only a last event.
    const std::string ended_by = file.ended_by();
    const bool known_end = ended_by != "signal" && ended_by != "unknown" && ended_by != "running";
    throw SelectionError(file.input().path() + ": " + text_of(moment, option, ns) + " is after the " +
                         (known_end ? "recording's end" : "last known event") + " at " + exact_time(duration_ns) +
                         "; give at most that, or a percentage (50%)");
  }
  return std::min(ns, duration_ns);
}

}  // namespace heapprof::replay
