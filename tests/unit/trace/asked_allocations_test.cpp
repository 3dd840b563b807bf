// Reading only the allocations that are asked for, compared with a reading of all events.
#include <catch2/catch.hpp>

#include <algorithm>
#include <random>
#include <tuple>

#include "analyzer/trace/merged_reader.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"
#include "tests/support/trace_builder.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::TemporaryFile;
using heapprof::test::TraceBuilder;

namespace {

constexpr std::uint32_t kNodes = 40;

/// Five threads with all operations. Stacks and sizes come in periods, so that most frames have few of them. Blocks
/// have few or many records.
void build(TraceBuilder& trace, std::mt19937& random) {
  std::vector<TraceBuilder::Stream*> streams;
  for (std::uint32_t i = 0; i < 5; ++i) {
    streams.push_back(&trace.stream(i < 2 ? 30 : 1'000));
    streams.back()->thread(100 + i, "thread");
  }
  for (std::uint32_t node = 1; node <= kNodes; ++node) streams[0]->node(node, node / 2, 2, 0x100 * node);
  std::uint64_t time = 0;
  for (int i = 0; i < 20'000; ++i) {
    time += random() % 100 == 0 ? random() % 100'000 : random() % 3;
    TraceBuilder::Stream& stream = *streams[random() % streams.size()];
    const std::uint64_t address = 0x7000'0000'0000 + 16 * (random() % 5'000);
    const std::uint32_t node = 1 + (static_cast<std::uint32_t>(i) / 500 + random() % 3) % kNodes;
    const std::uint64_t size = random() % 200 == 0 ? random() : node * 100 + random() % 20;
    switch (random() % 12) {
      case 0: stream.free(time, address); break;
      case 1: stream.add(Op::kFreeStack, time, address, 0, node); break;
      case 2:
        stream.realloc_begin(time, address);
        if (random() % 30 == 0) stream.realloc_end(time, 0, 0, node);  // realloc(block, 0)
        else stream.realloc_end(time, address, size, node);
        break;
      case 3: stream.add(Op::kAllocFailed, time, 0, size, node); break;
      case 4: stream.add(Op::kMap, time, address & ~4095ull, 8192, node); break;
      case 5: stream.sample(time, time, 1 << 20); break;
      case 6:
        if (random() % 50 == 0) stream.thread(200 + static_cast<std::uint32_t>(random() % 9), "");
        break;
      default: stream.alloc(time, address, size, node); break;
    }
  }
}

using Row = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t>;

bool is_allocation(const MergedEvent& event) { return event.op() == Op::kAlloc || event.op() == Op::kReallocEnd; }

struct Read {
  std::vector<Row> rows;   ///< the allocations that are asked for, texts and gaps, by stream and in its order
  std::size_t others = 0;  ///< other events
};

/// `threads` 0: all events are read.
Read read(const TraceFile& file, const AskedAllocations& asked, const TraceSummary& summary, unsigned threads) {
  MergedReader reader(file);
  if (threads != 0) reader.ask(asked, summary, threads);
  Read result;
  Batch batch;
  std::uint64_t last_time = 0;
  bool ordered = true;
  while (reader.next(batch))
    for (const MergedEvent& event : batch.events()) {
      ordered &= event.time >= last_time;
      last_time = event.time;
      // A gap has no time of its own, a text an index in its batch instead of a node.
      if (event.op() == kGap) result.rows.emplace_back(0, 0, event.op_size, 0, event.stream());
      else if (event.op() == Op::kText) result.rows.emplace_back(event.time, 0, event.op_size, 0, event.stream());
      else if (is_allocation(event) && asked.has_size(event.size()) && asked.has_node(event.node))
        result.rows.emplace_back(event.time, asked.with_addresses ? event.address : event.address != 0, event.op_size,
                                 event.node, event.stream());
      else ++result.others;
    }
  CHECK(ordered);
  std::ranges::stable_sort(result.rows, {}, [](const Row& row) { return std::get<4>(row); });
  return result;
}

}  // namespace

TEST_CASE("The allocations that are asked for are those of a reading of all events") {
  const auto seed = static_cast<unsigned>(GENERATE(range(11, 15)));
  std::mt19937 random(heapprof::test::seed(seed));
  TraceBuilder trace;
  build(trace, random);
  std::vector<std::uint8_t> bytes = trace.bytes();
  if (seed % 2 == 0)
    for (int i = 0; i < 6; ++i) bytes[bytes.size() / 4 + random() % (bytes.size() / 2)] ^= 1;
  const TemporaryFile path;
  TraceBuilder::write_bytes(path.path(), bytes);
  const TraceFile file(path.path());

  TraceSummary summary;
  {
    MergedReader reader(file);
    Batch batch;
    while (reader.next(batch)) {
    }
    summary.node_ids = reader.node_ids();
  }
  if (seed == 13) summary.node_ids.pop_back();  // frames with this node must be decoded as a whole
  std::size_t found = 0, left_out = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::uint8_t> nodes;
    AskedAllocations asked;
    if (i % 4 != 0) {  // one to three nodes
      nodes.assign(summary.node_ids.size() - (i % 3 == 0), 0);
      for (int node = 0; node <= i % 3; ++node) nodes[random() % nodes.size()] = 1;
      asked.nodes = nodes;
    }
    if (i % 2 == 0) asked.min_size = random() % 4'500;
    if (i % 5 != 1) asked.max_size = asked.min_size + random() % 300;
    asked.with_addresses = i % 7 < 4;
    INFO("seed " << seed << ", asked " << i);
    const Read all = read(file, asked, summary, 0);
    const unsigned threads = 1 + static_cast<unsigned>(i) % 4;
    const Read some = read(file, asked, summary, threads);
    INFO(threads << " threads");
    CHECK((some.rows == all.rows));  // in parentheses: thousands of rows are not printed
    found += some.rows.size();
    if (!asked.are_all()) left_out += all.others - some.others;
  }
  CHECK(found > 1'000);
  CHECK(left_out > 200'000);
}

TEST_CASE("A reader of asked allocations shows progress, and can end at any batch") {
  TraceBuilder trace;
  constexpr std::uint32_t kRareNode = 7;
  std::mt19937 random(heapprof::test::seed(15));
  std::vector<TraceBuilder::Stream*> streams;
  for (int i = 0; i < 3; ++i) streams.push_back(&trace.stream(2'000));
  for (std::uint32_t i = 0; i < 400'000; ++i) {
    TraceBuilder::Stream& stream = *streams[i / 50 % streams.size()];
    const std::uint64_t address = 0x7000'0000'0000 + 16 * std::uint64_t{random()};
    stream.alloc(10 * i, address, 100, i % 100'000 == 50'000 ? kRareNode : 3);
  }
  const TemporaryFile path;
  trace.write(path.path());
  const TraceFile file(path.path());
  TraceSummary summary;
  summary.node_ids = {0, 3, kRareNode};
  const std::vector<std::uint8_t> nodes = {0, 0, 1};
  for (const unsigned threads : {1u, 2u, 4u})
    for (const std::size_t end : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{1'000}}) {  // batches
      INFO(threads << " threads, " << end << " batches");
      MergedReader reader(file);
      reader.ask({.nodes = nodes}, summary, threads);
      std::size_t batches = 0, found = 0;
      std::uint64_t bytes = 0;
      Batch batch;
      while (batches != end && reader.next(batch)) {
        ++batches;
        CHECK(batch.frame_bytes_read >= bytes);
        CHECK(batch.frame_bytes_read - bytes < (5u << 20) / 4);
        bytes = batch.frame_bytes_read;
        for (const MergedEvent& event : batch.events()) found += event.node == 2;
      }
      if (end != 1'000) continue;
      CHECK(bytes == file.frame_bytes());
      CHECK(reader.records() == 400'000);
      CHECK(batches > 2);
      CHECK(found == 4);
    }
}
