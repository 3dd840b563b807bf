// The trace summary: reading returns what was written, and what no writer writes is refused.
#include "analyzer/trace/compact/trace_summary.h"

#include <catch2/catch.hpp>

using namespace heapprof;
using namespace heapprof::trace;

namespace {

/// Without stacks.
TraceSummary example() {
  TraceSummary summary;
  summary.node_ids = {0};
  return summary;
}

TraceSummary read(const TraceSummary& summary) {
  ByteWriter out;
  save(summary, out);
  ByteReader in(out.bytes());
  return load_summary(in, FileHeader{});
}

}  // namespace

TEST_CASE("The clock of a summary that is read ascends") {
  const auto with_points = [](std::vector<TickClock::Point> points) {
    TraceSummary summary = example();
    summary.clock = TickClock(FileHeader{}, std::move(points));
    return read(summary);
  };
  CHECK(with_points({{0, 0}, {10, 20}, {30, 20}}).clock.to_ns(Ticks{5}) == 10);
  // A difference that is negative is stored as one that overflows. The first would make the clock divide by 0.
  CHECK_THROWS_AS(with_points({{0, 0}, {10, 20}, {0, 30}}), FormatError);
  CHECK_THROWS_AS(with_points({{0, 0}, {10, 20}, {5, 30}}), FormatError);
  CHECK_THROWS_AS(with_points({{0, 0}, {10, 20}, {30, 10}}), FormatError);
  CHECK_THROWS_AS(with_points({{0, 0}, {10, 20}, {10, 20}}), FormatError);
}
