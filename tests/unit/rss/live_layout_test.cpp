// Bytes of live blocks, computed by hand.
#include <catch2/catch.hpp>

#include "analyzer/rss/live_layout.h"
#include "analyzer/rss/range_parts.h"

using namespace heapprof;
using namespace heapprof::rss;

namespace {

allocators::ProcessAllocators allocators_of(const std::string& library) {
  model::Profile profile;
  profile.modules.emplace_back().path = library;
  return allocators::ProcessAllocators(profile);
}

}  // namespace

TEST_CASE("glibc: a chunk has 8 bytes before its block, and fills a multiple of 16") {
  const LiveLayout layout = lay_out({{0x10050, 100}, {0x10010, 24}}, allocators_of("/lib/libc.so.6"));
  CHECK(layout.requested == PageRanges{{0x10010, 0x10028}, {0x10050, 0x100b4}});
  // Chunks of 32 and 112 bytes, from 8 bytes before the block.
  CHECK(layout.taken == PageRanges{{0x10008, 0x10028}, {0x10048, 0x100b8}});
  CHECK(layout.kept == PageRanges{{0x10000, 0x11000}});
}

TEST_CASE("glibc: a mapping of its own has 16 bytes before its block") {
  const LiveLayout layout = lay_out({{0x7f0000000010, 200'000}}, allocators_of("/lib/libc.so.6"));
  CHECK(layout.taken == PageRanges{{0x7f0000000000, 0x7f0000031000}});
  CHECK(layout.kept == layout.taken);
}

TEST_CASE("jemalloc: no header, and the slab is kept") {
  const LiveLayout layout = lay_out({{0x40000 + 3 * 80, 70}}, allocators_of("/lib/libjemalloc.so.2"));
  CHECK(layout.taken == PageRanges{{0x400f0, 0x40140}});
  CHECK(layout.kept == PageRanges{{0x40000, 0x45000}});
}

TEST_CASE("blocks of a pool within a block count once") {
  const LiveLayout layout =
      lay_out({{0x40000, 16 << 10}, {0x40100, 64}, {0x41000, 4096}}, allocators_of("/lib/libjemalloc.so.2"));
  CHECK(layout.requested == PageRanges{{0x40000, 0x44000}});
  CHECK(layout.taken == PageRanges{{0x40000, 0x44000}});
}

TEST_CASE("sizes and addresses of a damaged trace do not overflow") {
  const LiveLayout layout = lay_out({{~std::uint64_t{0} - 8, 100},
                                     {allocators::kMaxAddress - 64, ~std::uint64_t{0}},
                                     {8, ~std::uint64_t{0}},
                                     {4, 0}},
                                    allocators_of("/lib/libc.so.6"));
  CHECK(layout.requested == PageRanges{{8, allocators::kMaxAddress}});
  REQUIRE(layout.taken.size() == 1);
  CHECK(layout.taken.front().begin == 0);
  CHECK(layout.taken.front().end < 2 * allocators::kMaxAddress);
}
