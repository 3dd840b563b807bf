// Which free memory of glibc's arenas a trim does not return.
#include "analyzer/pins/arena_tops.h"

#include <catch2/catch.hpp>

#include <string>

#include "analyzer/pins/page_history.h"

using namespace heapprof;
using namespace heapprof::pins;
using allocators::ProcessAllocators;

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHeapBytes = 64 << 20;
constexpr std::uint64_t kHeap = 0x7f0000000000;
constexpr std::uint64_t kNext = kHeap + kHeapBytes;

ProcessAllocators allocators_of(const std::string& library) {
  model::Profile profile;
  profile.modules.emplace_back().path = library;
  return ProcessAllocators(profile);
}

PageRanges tops_of(const PageRanges& once_held, const PageRanges& kept,
                   const std::string& library = "/lib/libc.so.6") {
  return arena_tops(allocators_of(library), once_held, kept);
}

}  // namespace

TEST_CASE("the free end of a heap that was never full is the top of its arena") {
  CHECK(tops_of({{kHeap, kHeap + 90 * kPage}, {kNext, kNext + 70 * kPage}},
                {{kHeap, kHeap + 2 * kPage}, {kNext + 5 * kPage, kNext + 6 * kPage}}) ==
        PageRanges{{kHeap + 2 * kPage, kNext}, {kNext + 6 * kPage, kNext + kHeapBytes}});
  // Nothing is left in the first one.
  constexpr std::uint64_t kThird = kNext + kHeapBytes;
  CHECK(tops_of({{kHeap, kHeap + 90 * kPage}, {kNext, kNext + 70 * kPage}, {kThird, kThird + 9 * kPage}},
                {{kNext, kNext + kPage}, {kThird + kPage, kThird + 2 * kPage}}) ==
        PageRanges{{kHeap, kNext}, {kNext + kPage, kThird}, {kThird + 2 * kPage, kThird + kHeapBytes}});
}

TEST_CASE("the free end of a heap that was full is no top, as long as another heap has live blocks") {
  const PageRanges once_held{{kHeap, kNext - 30 * kPage}, {kNext, kNext + 20 * kPage}};
  const AddressRange first{kHeap, kHeap + kPage};
  const AddressRange other{kNext, kNext + 3 * kPage};
  CHECK(tops_of(once_held, {first, other}) == PageRanges{{kNext + 3 * kPage, kNext + kHeapBytes}});
  CHECK(tops_of(once_held, {first}) == PageRanges{{kHeap + kPage, kNext - 30 * kPage}, {kNext, kNext + 20 * kPage}});
  CHECK(tops_of(once_held, {}) == once_held);
}

TEST_CASE("other allocators have no tops") {
  const PageRanges once_held{{kHeap, kHeap + 90 * kPage}, {kNext, kNext + 70 * kPage}};
  CHECK(tops_of(once_held, {}, "/lib/libjemalloc.so.2").empty());
}

TEST_CASE("ranges of the whole address space take no time") {
  const std::uint64_t end = std::uint64_t{1} << 56;
  CHECK(tops_of({{kPage, end}}, {{kPage, 2 * kPage}, {kHeap, kHeap + kPage}}).empty());
}

TEST_CASE("a trim returns the free end of a full heap, and the free begin of the next one, which it touches") {
  const ProcessAllocators allocators = allocators_of("/lib/libc.so.6");
  PageHistory history(allocators);
  const auto allocate = [&](std::uint64_t address) {
    history.add({1, address, op_size(Op::kAlloc, 1'000), 0, 0});
    return allocators.of(address).kept_range(address, 1'000);
  };
  constexpr std::uint64_t kChunk = 1'008;
  const AddressRange first = allocate(kHeap + 0x8c0);
  for (std::uint64_t at = kHeap + 0x8c0 + kChunk; at + kChunk < kNext; at += kChunk) allocate(at);
  for (std::uint64_t i = 0; i < 100; ++i) allocate(kNext + 0x30 + i * kChunk);
  const AddressRange later = allocate(kNext + 0x30 + 100 * kChunk);
  for (std::uint64_t i = 101; i < 200; ++i) allocate(kNext + 0x30 + i * kChunk);
  CHECK(history.returnable({first, later}) == PageRanges{{first.end, later.begin}});
}
