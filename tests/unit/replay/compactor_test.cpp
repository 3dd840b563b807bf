// The analysis of a compacted trace equals that of the original, for the complete recording and for slices.
#include <catch2/catch.hpp>

#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/replay/compact/compactor.h"
#include "analyzer/trace/compact/section.h"
#include "analyzer/trace/copy_without_arguments.h"
#include "analyzer/trace/events/limits.h"
#include "analyzer/trace/merged_reader.h"
#include "tests/support/profile_text.h"
#include "tests/support/random_trace.h"
#include "tests/support/seed.h"
#include "tests/support/temporary_file.h"

using namespace heapprof;
using namespace heapprof::replay;
using heapprof::test::TemporaryFile;
using heapprof::test::text_of;
using heapprof::test::TraceBuilder;

namespace {

constexpr IndexUse kNoIndex{.use = false, .keep = false};

}  // namespace

TEST_CASE("The analysis of a compacted trace equals that of the original") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(1, 5)));
  TraceBuilder trace;
  // One tick is a microsecond, so rounding changes no time.
  trace.header.ticks_per_second = 1'000'000;
  heapprof::test::random_program(trace, seed, 30'000);
  const TemporaryFile path;
  trace.write(path.path());
  std::mt19937_64 random(heapprof::test::seed(seed));
  std::array<Selection, 6> selections;
  std::array<std::string, 6> with_addresses, without_addresses;
  for (std::size_t i = 0; i < selections.size(); ++i) {
    if (i != 0) {
      const double from = static_cast<double>(random() % 1'000) / 10;
      selections[i].from = Moment{from, true};
      selections[i].to = Moment{from + (100 - from) / 10, true};
    }
    const Analysis was(path.path(), selections[i], {}, kNoIndex);
    with_addresses[i] = text_of(was, true);
    without_addresses[i] = text_of(was, false);
  }
  for (const bool exact : {true, false})
    // Chunks that end within a batch, and chunks that end with one, as with the default size.
    for (const std::uint64_t chunk_records : {std::uint64_t{4'000}, std::uint64_t{trace::Batch::kEvents}}) {
      const TemporaryFile compacted;
      CompactOptions options;
      options.exact = exact;
      options.chunk_records = chunk_records;
      options.snapshot_interval = chunk_records;
      options.level = 3;
      const CompactResult result = compact(path.path(), compacted.path(), options);
      CHECK(result.bytes < result.original_bytes);
      int began_at_snapshot = 0;
      for (std::size_t i = 0; i < selections.size(); ++i) {
        const Analysis is(compacted.path(), selections[i], {}, {});
        began_at_snapshot += is.began_at_snapshot();
        INFO("seed " << seed << ", slice " << i << ", exact " << exact << ", chunks of " << chunk_records);
        CHECK(heapprof::test::first_difference(text_of(is, exact), (exact ? with_addresses : without_addresses)[i]) ==
              "");
      }
      CHECK(began_at_snapshot > 0);
    }
}

TEST_CASE("A trace of many short-lived threads and many marks keeps all of them, compacted or not") {
  constexpr std::uint32_t kThreads = 140'000;  // more than the replay keeps of a small file
  constexpr std::uint32_t kMarks = 240'000;
  TraceBuilder trace;
  trace.header.ticks_per_second = 1'000'000;
  trace.frame_extent_bytes = 1 << 20;
  auto& stream = trace.stream(2'046);
  std::mt19937_64 random(heapprof::test::seed(6));
  std::uint64_t time = 1;
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    stream.thread(100 + i, "program");
    stream.text(TextKind::kThreadName, 0, 0, "worker");
    stream.alloc(time += 20 + random() % 200, 0x10000 + 128 * std::uint64_t{i}, 100);
  }
  for (std::uint32_t i = 0; i < kMarks; ++i) {
    stream.free(time += random() % 100, 0x10000 + 128 * std::uint64_t{i % kThreads});
    stream.alloc(time, 0x10000 + 128 * std::uint64_t{i % kThreads}, 100);
    stream.text(TextKind::kMark, 0, 0, "frame");
  }
  const TemporaryFile path, compacted;
  trace.write(path.path());
  CompactOptions options;
  options.level = 1;
  compact(path.path(), compacted.path(), options);
  const auto check = [&](const Analysis& analysis) {
    const model::Profile& profile = analysis.profile();
    CHECK(profile.integrity.complete);
    CHECK(profile.integrity.notes.empty());
    REQUIRE(profile.threads.size() == kThreads);
    std::uint32_t wrong = 0;
    for (std::uint32_t i = 0; i + 1 < kThreads; ++i)
      wrong += profile.threads[i].allocations != 1 || profile.threads[i].tid != 100 + i ||
               profile.threads[i].name != "worker";
    CHECK(wrong == 0);
    CHECK(profile.threads.back().allocations == 1 + kMarks);
  };
  const Analysis was(path.path(), {}, {}, kNoIndex);
  check(was);
  {
    INFO("compacted");
    check(Analysis(compacted.path(), {}, {}, kNoIndex));
  }
  const Analysis is(compacted.path(), {}, {}, {});
  CHECK(heapprof::test::first_difference(text_of(is, false), text_of(was, false)) == "");
}

TEST_CASE("A trace of many nodes that compress to nearly nothing keeps all of them when it is compacted") {
  constexpr std::uint32_t kNodes = 400'000;  // of recursions
  TraceBuilder trace;
  trace.frame_extent_bytes = 1 << 20;
  auto& stream = trace.stream(2'046);
  stream.thread(100, "program");
  for (std::uint32_t id = 1; id <= kNodes; ++id) stream.node(id, id % 1'000 == 1 ? 0 : id - 1, 1, 0x1000);
  stream.alloc(10, 0x10000, 100, kNodes);
  const TemporaryFile path, compacted;
  trace.write(path.path());
  REQUIRE(trace::max_nodes(std::filesystem::file_size(path.path())) > kNodes);
  compact(path.path(), compacted.path(), {});
  CHECK(std::filesystem::file_size(compacted.path()) < 100'000);
  const trace::TraceFile file(compacted.path());
  CHECK(file.compacted()->summary->nodes_left_out == 0);
  CHECK(file.compacted()->summary->definitions.node_count == kNodes + 1);
  CHECK(file.damage().notes.empty());

  // The same trace as it was written before the padding was: the nodes beyond the limit are left out, no event is.
  std::vector<char> bytes(std::filesystem::file_size(compacted.path()));
  std::ifstream(compacted.path(), std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  const auto is_padding = [](const trace::Section& section) {
    return section.header.kind == trace::SectionKind::kPadding;
  };
  std::vector<char> without(bytes.begin(), bytes.begin() + file.header().header_bytes);
  trace::Section section;
  for (std::uint64_t at = file.header().header_bytes;
       trace::read_section(file.input(), file.file_id(), at, file.bytes(), section);
       at = trace::next_section(section))
    if (!is_padding(section))
      without.insert(without.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                     bytes.begin() + static_cast<std::ptrdiff_t>(trace::next_section(section)));
  const TemporaryFile old;
  std::ofstream(old.path(), std::ios::binary).write(without.data(), static_cast<std::streamsize>(without.size()));
  const Analysis analysis(old.path(), Selection{}, {}, kNoIndex);
  CHECK(analysis.profile().heap.allocations == 1);
  CHECK(analysis.profile().heap.leaked_bytes == 100);
  CHECK_FALSE(analysis.profile().integrity.complete);
  CHECK(analysis.profile().integrity.events_lost == 0);
  REQUIRE(analysis.profile().integrity.notes.size() == 1);
  CHECK(analysis.profile().integrity.notes[0].find("the stacks exceed") != std::string::npos);
  // Its program has no arguments, so nothing is left out of a copy.
  std::vector<char> copy;
  trace::copy_without_arguments(trace::TraceFile(old.path()),
                                [&](std::string_view part) { copy.insert(copy.end(), part.begin(), part.end()); });
  CHECK((copy == without));
}

TEST_CASE("Damaged compacted traces are refused, or read up to the damage") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 4, 10'000);
  const TemporaryFile path, compacted;
  trace.write(path.path());
  CompactOptions options;
  options.chunk_records = 1'000;
  options.snapshot_interval = 3'000;
  compact(path.path(), compacted.path(), options);
  std::ifstream in(compacted.path(), std::ios::binary);
  const std::vector<std::uint8_t> sound{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const std::uint64_t events = Analysis(compacted.path(), {}).profile().events();
  std::mt19937_64 random(heapprof::test::seed(5));
  int incomplete = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<std::uint8_t> bytes = sound;
    if (i % 4 == 0) bytes.resize(random() % bytes.size());
    else bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    TraceBuilder::write_bytes(compacted.path(), bytes);
    try {
      const model::Profile profile = Analysis(compacted.path(), {}).profile();
      incomplete += !profile.integrity.complete;
      if (profile.integrity.complete) CHECK(profile.events() == events);
    } catch (const trace::TraceError&) {
    }
  }
  CHECK(incomplete > 10);
}

TEST_CASE("Consecutive damaged chunks cause one gap in each stream") {
  TraceBuilder trace;
  heapprof::test::random_program(trace, 4, 10'000);
  const TemporaryFile path, compacted;
  trace.write(path.path());
  CompactOptions options;
  options.chunk_records = 1'000;
  compact(path.path(), compacted.path(), options);
  std::ifstream in(compacted.path(), std::ios::binary);
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  const auto chunks = trace::TraceFile(compacted.path()).compacted()->sections.chunks;
  REQUIRE(chunks.size() > 5);
  for (std::size_t i = 1; i < chunks.size(); ++i) bytes.at(chunks[i].offset + sizeof(trace::SectionHeader)) ^= 1;
  TraceBuilder::write_bytes(compacted.path(), bytes);
  const trace::TraceFile file(compacted.path());
  trace::MergedReader reader(file);
  trace::Batch batch;
  std::size_t events = 0, gaps = 0;
  while (reader.next(batch))
    for (const trace::MergedEvent& event : batch.events()) event.op() == trace::kGap ? ++gaps : ++events;
  CHECK(events == 1'000);
  CHECK(gaps > 0);
  CHECK(gaps <= file.streams().size());
}
