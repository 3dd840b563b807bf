#include "analyzer/processes/sum_peak.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "tests/support/seed.h"

using namespace heapprof::processes;

namespace {

/// A process as its changes; the others are computed from these.
struct Process {
  std::uint64_t start_ns, end_ns;
  std::vector<Step> steps;
};

Process random_process(std::mt19937_64& random, std::uint64_t duration_ns) {
  Process process;
  process.start_ns = random() % duration_ns;
  process.end_ns = process.start_ns + 1 + random() % (duration_ns - process.start_ns);
  std::uint64_t ns = process.start_ns;
  std::uint64_t live = 0;
  while ((ns += random() % 40) <= process.end_ns) {
    live = random() % 3 == 0 ? live / 2 : live + random() % 1000;
    process.steps.push_back({ns, live});
  }
  return process;
}

/// Pieces of some width, as a timeline has them.
LiveBounds bounds_of(const Process& process, std::uint64_t width_ns) {
  LiveBounds bounds;
  bounds.end_ns = process.end_ns;
  std::uint64_t live = 0;
  auto step = process.steps.begin();
  for (std::uint64_t from = process.start_ns; from <= process.end_ns; from += width_ns) {
    LivePiece piece{from, live, live, 0};
    for (; step != process.steps.end() && step->ns < from + width_ns; ++step) {
      live = step->live_bytes;
      piece.min_bytes = std::min(piece.min_bytes, live);
      piece.max_bytes = std::max(piece.max_bytes, live);
      ++piece.changes;
    }
    bounds.pieces.push_back(piece);
  }
  return bounds;
}

StepsInWindows steps_in(const Process& process, const std::vector<Window>& windows) {
  StepsInWindows result;
  std::vector<Step> steps = process.steps;
  steps.push_back({process.end_ns + 1, 0});
  for (const Window& window : windows) {
    std::uint64_t begin = 0;
    std::vector<Step> within;
    for (const Step& step : steps)
      if (step.ns < window.from_ns) begin = step.live_bytes;
      else if (step.ns <= window.to_ns) within.push_back(step);
    result.at_begin.push_back(begin);
    result.steps.push_back(within);
  }
  return result;
}

/// The highest sum, from the definition: all changes of all processes in order.
std::uint64_t highest_sum(const std::vector<Process>& processes) {
  struct Change {
    std::uint64_t ns;
    std::size_t process;
    std::uint64_t live_bytes;
  };
  std::vector<Change> changes;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    for (const Step& step : processes[i].steps) changes.push_back({step.ns, i, step.live_bytes});
    changes.push_back({processes[i].end_ns + 1, i, 0});
  }
  std::ranges::stable_sort(changes, [](const Change& a, const Change& b) {
    return std::pair(a.ns, a.process) < std::pair(b.ns, b.process);
  });
  std::vector<std::uint64_t> live(processes.size(), 0);
  std::uint64_t sum = 0, highest = 0;
  for (const Change& change : changes) {
    sum += change.live_bytes - live[change.process];
    live[change.process] = change.live_bytes;
    highest = std::max(highest, sum);
  }
  return highest;
}

}  // namespace

TEST_CASE("The peak of the sum is found in the windows in which it can be") {
  std::mt19937_64 random(heapprof::test::seed(7));
  for (int round = 0; round < 200; ++round) {
    std::vector<Process> processes;
    const std::size_t count = 1 + random() % 6;
    for (std::size_t i = 0; i < count; ++i) processes.push_back(random_process(random, 5000));
    std::vector<LiveBounds> bounds;
    for (const Process& process : processes) bounds.push_back(bounds_of(process, 50 + random() % 300));
    const std::uint64_t expected = highest_sum(processes);
    for (const std::uint64_t max_changes : {std::uint64_t{1'000'000}, std::uint64_t{20}}) {
      const Windows windows = windows_of_peak(bounds, max_changes);
      if (expected == 0) {
        CHECK(windows.chosen.empty());
        continue;
      }
      std::vector<StepsInWindows> steps;
      for (const Process& process : processes) steps.push_back(steps_in(process, windows.chosen));
      const SumPeak peak = peak_in_windows(windows.chosen, steps);
      CAPTURE(round, max_changes);
      CHECK(peak.bytes <= expected);
      CHECK(std::max(peak.bytes, windows.at_most_elsewhere) >= expected);
      if (max_changes == 1'000'000) CHECK(peak.bytes == expected);
      std::uint64_t sum = 0;
      for (const std::uint64_t bytes : peak.live_bytes) sum += bytes;
      CHECK(sum == peak.bytes);
    }
  }
}

TEST_CASE("What lies far below the peak is not read") {
  // Two processes after each other; the first one has its peak early.
  const std::vector<LiveBounds> bounds = {{{{0, 0, 1000, 50}, {100, 900, 950, 50}, {200, 100, 200, 50}}, 300},
                                          {{{301, 0, 500, 50}}, 400}};
  const Windows windows = windows_of_peak(bounds, 1'000'000);
  REQUIRE(windows.chosen.size() == 1);
  CHECK(windows.chosen[0].from_ns == 0);
  CHECK(windows.chosen[0].to_ns == 199);
  CHECK(windows.at_most_elsewhere == 0);
}

TEST_CASE("Without live bytes there is no peak") {
  CHECK(windows_of_peak({}, 100).chosen.empty());
  const std::vector<LiveBounds> bounds = {{{{5, 0, 0, 0}}, 10}, {}};
  CHECK(windows_of_peak(bounds, 100).chosen.empty());
}
