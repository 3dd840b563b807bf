// Which trace of a run the summary of `heapprof record` is about.
#include "analyzer/cli/commands/record/record_summary.h"

#include <catch2/catch.hpp>

using namespace heapprof::cli;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TraceFigures summary(std::uint32_t pid, std::uint64_t start, std::uint64_t peak_bytes, std::uint64_t events = 1) {
  TraceFigures result;
  result.trace.header.pid = pid;
  result.trace.header.process_start = 7;
  result.trace.header.start_monotonic_ns = start;
  result.peak_bytes = peak_bytes;
  result.events = events;
  return result;
}

using Positions = std::vector<std::size_t>;

}  // namespace

TEST_CASE("the summary of a process is about its last program, whatever its wrappers allocated") {
  CHECK(traces_of_processes({summary(1, 10, 90'000), summary(1, 20, 80'000), summary(1, 30, 16)}) == Positions{2});
  // Traces are ordered by their start, not by their position in the list.
  CHECK(traces_of_processes({summary(1, 30, 16), summary(1, 10, 90'000)}) == Positions{0});
}

TEST_CASE("the summary is about an earlier program if its peak exceeds that of the last one by more than 1 MiB") {
  CHECK(traces_of_processes({summary(1, 10, kMiB + 17), summary(1, 20, 16)}) == Positions{0});
  CHECK(traces_of_processes({summary(1, 10, kMiB + 16), summary(1, 20, 16)}) == Positions{1});
}

TEST_CASE("processes are identified by pid and start time") {
  std::vector<TraceFigures> traces = {summary(2, 10, 5), summary(1, 20, 6), summary(2, 30, 7), summary(2, 5, 8)};
  traces.back().trace.header.process_start = 8;
  CHECK(traces_of_processes(traces) == Positions{2, 1, 3});
}

TEST_CASE("traces are ranked by peak, then by events; equal ones keep their order") {
  const std::vector<TraceFigures> traces = {summary(1, 1, 5, 9), summary(2, 1, 6), summary(3, 1, 5, 10),
                                            summary(4, 1, 5, 9)};
  Positions positions = {0, 1, 2, 3};
  sort_by_peak(positions, traces);
  CHECK(positions == Positions{1, 2, 0, 3});
}
