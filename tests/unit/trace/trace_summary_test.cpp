// The trace summary: reading returns what was written, and what no writer writes is refused.
#include "analyzer/trace/compact/trace_summary.h"

#include <catch2/catch.hpp>

#include "analyzer/trace/events/limits.h"

using namespace heapprof;
using namespace heapprof::trace;

namespace {

/// Without stacks.
TraceSummary example() {
  TraceSummary summary;
  summary.node_ids = {0};
  return summary;
}

TraceSummary read(const TraceSummary& summary, std::uint64_t file_bytes = 0) {
  ByteWriter out;
  save(summary, out);
  ByteReader in(out.bytes());
  return load_summary(in, FileHeader{}, file_bytes);
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

TEST_CASE("A summary with more threads or marks than its trace can have is refused") {
  TraceSummary summary = example();
  Overview& overview = summary.overview.emplace();
  overview.threads.resize(max_threads(0) + 1);  // the last one is that of all others
  overview.marks.resize(Overview::kMaxMarks);
  CHECK(read(summary).overview->threads.size() == overview.threads.size());
  CHECK(read(summary).overview->marks.size() == overview.marks.size());
  overview.threads.emplace_back();
  CHECK_THROWS_AS(read(summary), FormatError);
  CHECK(read(summary, min_bytes_for_threads(overview.threads.size())).overview->marks.size() ==
        overview.marks.size());
  overview.threads.pop_back();
  overview.marks.emplace_back();
  CHECK_THROWS_AS(read(summary), FormatError);
}

TEST_CASE("Of a summary with more nodes than its trace can have, the first ones are read") {
  constexpr std::uint64_t kFileBytes = 1'000;
  const auto limit = static_cast<std::uint32_t>(max_summary_nodes(kFileBytes));
  CHECK(min_bytes_for_nodes(limit) == kFileBytes);
  const auto with_nodes = [&](std::uint32_t nodes, std::uint32_t parent_of_second) {
    TraceSummary summary = example();
    for (std::uint32_t id = 1; id < nodes; ++id) summary.node_ids.push_back(id);
    summary.definitions.node_count = nodes;
    summary.definitions.nodes.resize(3);
    summary.definitions.nodes[1] = {.offset = 0x100, .parent = 0, .module = 1, .defined = true};
    summary.definitions.nodes[2] = {.offset = 0x200, .parent = parent_of_second, .module = 1, .defined = true};
    summary.definitions.redefined_nodes = 7;
    return read(summary, kFileBytes);
  };
  const TraceSummary all = with_nodes(limit, limit - 1);
  CHECK(all.definitions.node_count == limit);
  CHECK(all.nodes_left_out == 0);
  CHECK(all.definitions.nodes.at(2).parent == limit - 1);

  const TraceSummary most = with_nodes(limit + 5, limit + 4);
  CHECK(most.definitions.node_count == limit);
  CHECK(most.nodes_left_out == 5);
  CHECK(most.definitions.nodes.size() == limit);
  CHECK(most.node_ids.size() == limit);
  CHECK(most.node_ids.back() == limit - 1);
  CHECK(most.definitions.nodes.at(2).offset == 0x200);
  CHECK(most.definitions.nodes.at(2).parent == 0);  // its caller is left out
  CHECK(most.definitions.redefined_nodes == 7);
}

TEST_CASE("A count of items that do not fit into the bytes left is refused") {
  ByteWriter out;
  out.number(3);
  for (int i = 0; i < 9; ++i) out.number(0);
  const auto count = [&](std::size_t min_item_bytes) {
    ByteReader in(out.bytes());
    return in.count(min_item_bytes);
  };
  CHECK(count(1) == 3);
  CHECK(count(3) == 3);
  CHECK_THROWS_AS(count(4), FormatError);
}
