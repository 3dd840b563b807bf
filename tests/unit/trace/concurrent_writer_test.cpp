// Reading a recording whose program writes between any two reads of the reader. The stores are those of the recorder,
// one after another for each thread; which thread stores next is random. This file replaces pread() in the test
// program: the writer continues before each read.
#include <catch2/catch.hpp>

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <vector>

#include "analyzer/trace/follower.h"
#include "analyzer/trace/merged_reader.h"
#include "tests/support/growing_file.h"
#include "tests/support/seed.h"

using namespace heapprof;
using namespace heapprof::trace;
using heapprof::test::GrowingFile;
using heapprof::test::TraceBuilder;

namespace {

std::function<void()> g_before_read;

}  // namespace

extern "C" ssize_t pread(int descriptor, void* out, std::size_t bytes, off_t offset) {
  if (g_before_read) g_before_read();
  return ::syscall(SYS_pread64, descriptor, out, bytes, offset);
}

namespace {

struct Shape {
  std::uint32_t streams;
  std::uint32_t slots;  // of a staging block
  int events;
  bool known_size;  // the header has the size of the file
};

class Writer {
 public:
  Writer(std::uint64_t seed, const Shape& shape) : shape_(shape), random_(test::seed(seed)), file_(trace_) {
    trace_.frame_extent_bytes = kUnitBytes;
    before_ = trace_.bytes();
    std::vector<TraceBuilder::Stream*> streams;
    stores_.resize(shape.streams);
    committed_.resize(shape.streams);
    std::vector<std::uint64_t> added(shape.streams);
    for (std::uint32_t stream = 0; stream < shape.streams; ++stream) {
      streams.push_back(&trace_.stream(shape.slots));
      add_stores(stream, 0);
    }
    for (int i = 0; i < shape.events; ++i) {
      const auto stream = static_cast<std::uint32_t>(below(shape.streams));
      streams[stream]->alloc(static_cast<std::uint64_t>(i), address(stream, added[stream]), 16);
      add_stores(stream, ++added[stream]);
    }
  }

  /// The streams have the events 0, 1, ..., and this address for each.
  static std::uint64_t address(std::uint64_t stream, std::uint64_t event) { return (stream + 1) << 32 | event << 4; }

  /// Makes `count` stores, or those that are left.
  void step(std::uint64_t count) {
    for (; count != 0 && !done(); --count) {
      std::size_t stream = below(shape_.streams);
      while (stores_[stream].empty()) stream = (stream + 1) % shape_.streams;
      const Store store = std::move(stores_[stream].front());
      stores_[stream].pop_front();
      if (!store.bytes.empty()) file_.write(store.offset, store.bytes);
      else if (shape_.known_size) file_.header().file_bytes = std::max(file_.header().file_bytes, store.offset);
      committed_[stream] = store.committed;
    }
  }
  bool done() const noexcept {
    return std::ranges::all_of(stores_, [](const auto& stores) { return stores.empty(); });
  }
  void end() { file_.end(); }

  const std::string& path() const noexcept { return file_.path(); }
  /// The events that are in the file, by stream.
  const std::vector<std::uint64_t>& committed() const noexcept { return committed_; }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

 private:
  struct Store {
    std::uint64_t offset;
    std::vector<std::uint8_t> bytes;  // none: the header's file_bytes becomes `offset`
    std::uint64_t committed;
  };

  /// Queues the stores for what was added to the trace, which are all of `stream`. `committed`: its events now.
  void add_stores(std::uint32_t stream, std::uint64_t committed) {
    const std::vector<std::uint8_t> image = trace_.bytes();
    std::deque<Store>& stores = stores_[stream];
    const std::uint64_t had = stores.empty() ? 0 : stores.back().committed;
    const auto put = [&](std::uint64_t offset, std::uint64_t bytes) {
      const auto from = image.begin() + static_cast<std::ptrdiff_t>(offset);
      stores.push_back({offset, {from, from + static_cast<std::ptrdiff_t>(bytes)}, had});
    };
    for (std::uint64_t at = before_.size(); at < image.size();) {
      ExtentHeader extent;
      std::memcpy(&extent, &image[at], sizeof extent);
      const std::uint64_t end = at + extent.bytes;
      stores.push_back({end - 1, {0}, had});
      put(at + sizeof extent.magic, sizeof extent - sizeof extent.magic);
      put(at, sizeof extent.magic);
      stores.push_back({end, {}, had});
      at = end;
    }
    const std::uint64_t staging = trace_.staging_offset(stream);
    const std::uint64_t commit_at = staging + offsetof(StagingHeader, commit);
    const std::uint64_t slots_at = staging + sizeof(StagingHeader);
    const auto word_in = [&](const std::vector<std::uint8_t>& bytes) {
      std::uint64_t word = 0;
      if (commit_at < bytes.size()) std::memcpy(&word, &bytes[commit_at], sizeof word);
      return word;
    };
    const auto put_commit = [&](std::uint64_t word, std::uint64_t events) {
      const auto* const from = reinterpret_cast<const std::uint8_t*>(&word);
      stores.push_back({commit_at, {from, from + sizeof word}, events});
    };
    const std::uint64_t old_word = word_in(before_);
    const std::uint64_t word = word_in(image);
    std::uint32_t slots = commit_slots(old_word);
    if (commit_sequence(word) != commit_sequence(old_word)) {
      const std::uint64_t at = trace_.frame_offsets(stream).back();
      FrameHeader frame;
      std::memcpy(&frame, &image[at], sizeof frame);
      const std::uint64_t half = frame.payload_bytes / 2;
      put(at + sizeof frame, half);
      put(at + sizeof frame + half, frame.payload_bytes - half);
      put(at + sizeof frame.magic, sizeof frame - sizeof frame.magic);
      put(at, sizeof frame.magic);
      slots = 0;
    }
    if (slots == 0) {
      put(slots_at, sizeof(Slot));
      put_commit(commit_word(commit_sequence(word), 1), had);
      slots = 1;
    }
    if (commit_slots(word) > slots) {
      put(slots_at + slots * sizeof(Slot), (commit_slots(word) - slots) * sizeof(Slot));
      put_commit(word, committed);
    }
    before_ = image;
  }

  const Shape shape_;
  std::mt19937_64 random_;
  TraceBuilder trace_;
  GrowingFile file_;
  std::vector<std::uint8_t> before_;
  std::vector<std::deque<Store>> stores_;  // by stream
  std::vector<std::uint64_t> committed_;   // by stream
};

/// Counts the events by stream. Fails unless each stream has its events 0, 1, ... without a gap.
class Counter {
 public:
  explicit Counter(std::size_t streams) : counts_(streams) {}
  void add(std::span<const MergedEvent> events) {
    for (const MergedEvent& event : events) {
      const std::uint64_t stream = (event.address >> 32) - 1;
      REQUIRE(stream < counts_.size());
      REQUIRE(event.address == Writer::address(stream, counts_[stream]));
      ++counts_[stream];
    }
  }
  const std::vector<std::uint64_t>& counts() const noexcept { return counts_; }
  bool has(const std::vector<std::uint64_t>& committed) const {
    return std::ranges::equal(counts_, committed, std::greater_equal<>());
  }

 private:
  std::vector<std::uint64_t> counts_;
};

/// How many stores are made before a read: up to `most`, or exactly that many.
struct Pace {
  std::uint64_t most;
  bool exact;
};

void write_during_reads(Writer& writer, const Pace& pace) {
  g_before_read = [&writer, pace] { writer.step(pace.exact ? pace.most : writer.below(pace.most + 1)); };
}

struct StopWriting {
  ~StopWriting() { g_before_read = nullptr; }
};

constexpr Pace kPaces[] = {{1, false}, {3, false}, {20, false}, {200, false}};
constexpr Shape kShapes[] = {{1, 12, 600, true}, {3, 12, 600, false}, {5, 3, 600, true}};
/// Every copy of the staging block fails, because the block becomes a frame meanwhile.
constexpr Shape kFastest = {1, 3, 2'400, true};
constexpr Pace kFastestPace = {25, true};

void follow(std::uint64_t seed, const Shape& shape, const Pace& pace) {
  INFO("seed " << seed << ", " << shape.streams << " streams, up to " << pace.most << " stores before a read");
  Writer writer(seed, shape);
  writer.step(writer.below(20));
  const StopWriting at_end;
  write_during_reads(writer, pace);
  Follower follower(writer.path());
  Counter counter(shape.streams);
  const auto read = [&] {
    const std::vector<std::uint64_t> committed = writer.committed();
    follower.advance();
    EventRun run;
    while (follower.next(run)) counter.add(run.events);
    CHECK(counter.has(committed));
    REQUIRE(follower.damage().notes == std::vector<std::string>());
    REQUIRE_FALSE(follower.damage().incomplete);
  };
  while (!writer.done()) read();
  writer.end();
  read();
  CHECK(follower.ended());
  CHECK(counter.counts() == writer.committed());
}

void read_now(Writer& writer, const Shape& shape) {
  const std::vector<std::uint64_t> committed = writer.committed();
  const TraceFile file(writer.path());
  MergedReader reader(file);
  Counter counter(shape.streams);
  Batch batch;
  while (reader.next(batch)) counter.add(batch.events());
  CHECK(counter.has(committed));
  REQUIRE(file.damage().notes == std::vector<std::string>());
  REQUIRE(reader.damage().notes == std::vector<std::string>());
  REQUIRE_FALSE(file.damage().incomplete);
  REQUIRE_FALSE(reader.damage().incomplete);
}

}  // namespace

TEST_CASE("A recording that is followed has every event once, whatever is written between two reads") {
  std::uint64_t seed = 0;
  for (const Shape& shape : kShapes)
    for (const Pace& pace : kPaces)
      for (int i = 0; i < 6; ++i) follow(seed++, shape, pace);
  for (int i = 0; i < 3; ++i) follow(seed++, kFastest, kFastestPace);
}

TEST_CASE("A reading of a running program has the events from before it, whatever is written between two reads") {
  std::uint64_t seed = 0;
  const auto read_all = [&](const Shape& shape, const Pace& pace) {
    INFO("seed " << seed << ", " << shape.streams << " streams, up to " << pace.most << " stores before a read");
    Writer writer(seed++, shape);
    writer.step(20);
    const StopWriting at_end;
    write_during_reads(writer, pace);
    while (!writer.done()) read_now(writer, shape);
    writer.end();
    read_now(writer, shape);
  };
  for (const Shape& shape : kShapes)
    for (const Pace& pace : kPaces) read_all(shape, pace);
  read_all(kFastest, kFastestPace);
}
