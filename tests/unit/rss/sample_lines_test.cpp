#include "analyzer/rss/sample_lines.h"

#include <catch2/catch.hpp>

#include <utility>

#include "common/trace_format.h"

using namespace heapprof;
using namespace heapprof::rss;

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHeap = 0x1000000;
constexpr std::uint64_t kMappings = 0x7f0000000000;

/// Two blocks on one page, two pages that once held blocks, and mappings of 40 pages of the program.
ResidentMemory estimated(const ResidentSample& sample) {
  model::Profile profile;
  allocators::ProcessAllocators allocators(profile);
  LiveLayout live = lay_out({{kHeap + 16, 24}, {kHeap + 0x50, 100}}, allocators);
  return estimate(sample, {profile,
                           std::move(allocators),
                           std::move(live),
                           {{kHeap, kHeap + 3 * kPage}},
                           {{kMappings, kMappings + 30 * kPage, 1, kMapAnonymous},
                            {kMappings + 30 * kPage, kMappings + 40 * kPage, 2, kMapAnonymous},
                            {kMappings + 40 * kPage, kMappings + 50 * kPage, 3, kMapAnonymous | kMapReserve},
                            {kMappings + 50 * kPage, kMappings + 60 * kPage, 4, 0},
                            {kMappings + 60 * kPage, kMappings + 70 * kPage, 5, kMapAnonymous | kMapFromAllocator}}});
}

}  // namespace

TEST_CASE("all pages of blocks and mappings count as resident, and the rest is unknown") {
  const ResidentMemory memory = estimated({0, 100 * kPage, 20 * kPage});
  CHECK(memory.bytes_of(Line::kRequested) == 124);
  CHECK(memory.bytes_of(Line::kRounding) == 20);
  CHECK(memory.bytes_of(Line::kHoles) == kPage - 144);
  CHECK(memory.bytes_of(Line::kReturnable) == 2 * kPage);
  CHECK(memory.bytes_of(Line::kMmap) == 40 * kPage);
  REQUIRE(memory[Line::kMmap].parts.size() == 2);
  CHECK(memory[Line::kMmap].parts[0].node == 1);
  CHECK(memory.bytes_of(Line::kFiles) == 20 * kPage);
  CHECK(memory.bytes_of(Line::kUnknown) == 37 * kPage);
  CHECK(memory.total_bytes() == 100 * kPage);
}

TEST_CASE("no line takes more than what is left of the sample") {
  const ResidentMemory memory = estimated({0, 25 * kPage, 4 * kPage});
  CHECK(memory.bytes_of(Line::kMmap) == 20 * kPage);
  CHECK(memory.bytes_of(Line::kReturnable) == 0);
  CHECK(memory.bytes_of(Line::kUnknown) == 0);
  CHECK(memory.total_bytes() == 25 * kPage);

  const ResidentMemory tiny = estimated({0, 100, 0});
  CHECK(tiny.bytes_of(Line::kRequested) == 100);
  CHECK(tiny.not_resident_bytes == 24);
  CHECK(tiny.total_bytes() == 100);
  CHECK(estimated({0, 10, 50}).bytes_of(Line::kFiles) == 10);
}

TEST_CASE("without the sample's shared memory, files are unknown") {
  const ResidentMemory memory = estimated({0, 100 * kPage, std::nullopt});
  CHECK(memory.bytes_of(Line::kFiles) == 0);
  CHECK(memory.bytes_of(Line::kUnknown) == 57 * kPage);
}
