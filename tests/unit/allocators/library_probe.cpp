// Compares a model with the allocator that serves this program: library_probe.py preloads it.
//
//   usable sizes   malloc_usable_size() of sizes from 0 bytes to 40 MiB
//   granules       thousands of blocks of one size must fill the predicted slabs and spans exactly: a wrong beginning
//                  leaves some overfull and others nearly empty. jemalloc's mallctl() and mimalloc's
//                  mi_heap_visit_blocks() tell lengths and beginnings themselves.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/allocators/allocator_model.h"

namespace {

using heapprof::AddressRange;
using namespace heapprof::allocators;

int failures = 0;

template <typename... Values>
void fail(const char* pattern, Values... values) {
  if (++failures <= 20) std::printf(pattern, values...);
}

std::uint64_t address_of(const void* block) { return reinterpret_cast<std::uint64_t>(block); }

std::vector<std::uint64_t> all_kinds_of_sizes() {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 0; size <= 4096; ++size) sizes.push_back(size);
  for (std::uint64_t size = 4096; size <= 300'000; size += 509) sizes.push_back(size);
  for (std::uint64_t power = 4096; power <= std::uint64_t{1} << 25; power *= 2)
    for (const std::uint64_t near : {power - 17, power - 1, power, power + 1, power + power / 5, power + power / 2})
      sizes.push_back(near);
  return sizes;
}

void compare_usable_sizes(const AllocatorModel& model) {
  std::uint64_t longer_chunks = 0;
  std::uint64_t taken_for_mappings = 0;
  const std::vector<std::uint64_t> sizes = all_kinds_of_sizes();
  for (const std::uint64_t size : sizes) {
    // Three live at once, so that they do not all begin where the one before began.
    void* const blocks[] = {std::malloc(size), std::malloc(size), std::malloc(size)};
    for (void* const block : blocks) {
      const std::uint64_t expected = model.usable_bytes(address_of(block), size);
      const std::uint64_t usable = ::malloc_usable_size(block);
      const bool glibc = model.allocator() == Allocator::kGlibc;
      if (glibc && usable == expected + 16) ++longer_chunks;
      else if (glibc && model.is_unmapped_by_free(address_of(block), size) && usable < expected &&
               usable + kPageBytes > expected)
        ++taken_for_mappings;
      else if (usable != expected)
        fail("  %llu bytes: usable are %llu, predicted were %llu\n", static_cast<unsigned long long>(size),
             static_cast<unsigned long long>(usable), static_cast<unsigned long long>(expected));
    }
    for (void* const block : blocks) std::free(block);
  }
  std::printf("  %zu sizes compared\n", sizes.size());
  if (model.allocator() == Allocator::kGlibc)
    std::printf("  %llu chunks 16 bytes longer, %llu look like mappings\n",
                static_cast<unsigned long long>(longer_chunks), static_cast<unsigned long long>(taken_for_mappings));
  const std::uint64_t blocks = 3 * sizes.size();
  if (longer_chunks * 50 > blocks) fail("  more than 2 %% of the chunks are longer\n");
  if (taken_for_mappings * 100 > blocks) fail("  more than 1 %% of the chunks look like mappings\n");
}

struct Span {
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

void compare_spans(const AllocatorModel& model, std::uint64_t size) {
  constexpr std::uint64_t kBytes = 24 << 20;
  const std::uint64_t number = std::min<std::uint64_t>(kBytes / size, 50'000);
  std::vector<void*> blocks(number);
  std::uint64_t outside = 0;
  for (void*& block : blocks) block = std::malloc(size);
  std::map<std::uint64_t, Span> spans;
  const std::uint64_t usable = model.usable_bytes(address_of(blocks[0]), size);
  for (void* const block : blocks) {
    const AddressRange range = model.kept_range(address_of(block), size);
    outside += address_of(block) < range.begin || address_of(block) + usable > range.end;
    Span& span = spans[range.begin];
    span.bytes = range.bytes();
    ++span.blocks;
  }
  std::uint64_t overfull = 0;
  std::uint64_t full = 0;
  std::uint64_t end_before = 0;
  for (const auto& [begin, span] : spans) {
    const std::uint64_t room = span.bytes / usable;
    overfull += span.blocks > room || begin < end_before;
    // mimalloc leaves out the beginning of a page for blocks of up to 1 KiB and the rest of segments.
    full += (span.blocks + 8) * 10 >= room * 9;
    end_before = begin + span.bytes;
  }
  std::printf("  %6llu bytes: %zu spans of %llu, %llu full\n", static_cast<unsigned long long>(size), spans.size(),
              static_cast<unsigned long long>(spans.begin()->second.bytes), static_cast<unsigned long long>(full));
  if (outside != 0) fail("  %llu blocks are outside of their spans\n", static_cast<unsigned long long>(outside));
  if (overfull != 0) fail("  %llu spans are overfull\n", static_cast<unsigned long long>(overfull));
  // A thread's cache takes blocks of a span before it is full; the last span is not full either.
  if (full * 100 < (spans.size() - 1) * 90) fail("  fewer than 90 %% of the spans are full\n");
  for (void* const block : blocks) std::free(block);
}

/// The lengths of jemalloc's slabs, as it states them.
void compare_with_mallctl(const AllocatorModel& model) {
  using Mallctl = int (*)(const char*, void*, std::size_t*, void*, std::size_t);
  const auto mallctl = reinterpret_cast<Mallctl>(::dlsym(RTLD_DEFAULT, "mallctl"));
  if (mallctl == nullptr) return fail("  the library has no mallctl\n");
  const auto read = [&](const std::string& name, auto value) {
    std::size_t length = sizeof value;
    if (mallctl(name.c_str(), &value, &length, nullptr, 0) != 0) fail("  mallctl %s failed\n", name.c_str());
    return value;
  };
  const unsigned bins = read("arenas.nbins", 0u);
  for (unsigned bin = 0; bin < bins; ++bin) {
    const std::string name = "arenas.bin." + std::to_string(bin) + ".";
    const std::size_t size = read(name + "size", std::size_t{0});
    const std::size_t slab = read(name + "slab_size", std::size_t{0});
    void* const block = std::malloc(size);
    const std::uint64_t predicted = model.kept_range(address_of(block), size).bytes();
    if (predicted != slab)
      fail("  slabs of %zu bytes have %zu, predicted were %llu\n", size, slab,
           static_cast<unsigned long long>(predicted));
    std::free(block);
  }
  std::printf("  %u slab lengths compared with mallctl\n", bins);
}

/// mi_heap_area_t of mimalloc 2.
struct HeapArea {
  void* blocks;
  std::size_t reserved;
  std::size_t committed;
  std::size_t used;
  std::size_t block_size;
};

struct AreaComparison {
  const AllocatorModel& model;
  std::uint64_t small = 0;
  std::uint64_t medium = 0;
  std::uint64_t ambiguous = 0;  ///< medium pages whose first block could be that of several pages
};

/// The beginning of each page, as mimalloc states it: its blocks begin there, or up to 384 bytes behind.
bool compare_area(const void* /*heap*/, const HeapArea* area, void* block, std::size_t /*size*/, void* argument) {
  constexpr std::size_t kMaxSmall = 16 * 1024;
  constexpr std::size_t kMaxMedium = 128 * 1024;
  constexpr std::uint64_t kMaxOffset = 384;
  auto& comparison = *static_cast<AreaComparison*>(argument);
  if (block != nullptr || area->block_size > kMaxMedium) return true;
  const bool small = area->block_size <= kMaxSmall;
  ++(small ? comparison.small : comparison.medium);
  const std::uint64_t begin = address_of(area->blocks);
  const AddressRange range = comparison.model.kept_range(begin, area->block_size);
  if (begin >= range.begin && begin <= range.begin + kMaxOffset && begin + area->reserved <= range.end) return true;
  if (!small && begin > range.begin && begin < range.end && (begin - range.begin) % area->block_size == 0)
    ++comparison.ambiguous;
  else
    fail("  page at %llx of %zu bytes, blocks of %zu: predicted from %llx, %llu bytes\n",
         static_cast<unsigned long long>(begin), area->reserved, area->block_size,
         static_cast<unsigned long long>(range.begin), static_cast<unsigned long long>(range.bytes()));
  return true;
}

void compare_with_areas(const AllocatorModel& model) {
  using Visit = bool (*)(const void*, bool, bool (*)(const void*, const HeapArea*, void*, std::size_t, void*), void*);
  const auto visit = reinterpret_cast<Visit>(::dlsym(RTLD_DEFAULT, "mi_heap_visit_blocks"));
  const auto heap = reinterpret_cast<void* (*)()>(::dlsym(RTLD_DEFAULT, "mi_heap_get_default"));
  if (visit == nullptr || heap == nullptr) return fail("  the library has no mi_heap_visit_blocks\n");
  std::vector<void*> blocks;
  for (std::uint64_t size = 8; size <= 128 << 10; size += size / 5 + 8)
    for (int i = 0; i < 40; ++i) blocks.push_back(std::malloc(size));
  AreaComparison comparison{model};
  visit(heap(), false, compare_area, &comparison);
  std::printf(
      "  %llu pages of small blocks, %llu of medium ones compared with mi_heap_visit_blocks, %llu ambiguous\n",
      static_cast<unsigned long long>(comparison.small), static_cast<unsigned long long>(comparison.medium),
      static_cast<unsigned long long>(comparison.ambiguous));
  if (comparison.small < 50 || comparison.medium < 10) fail("  too few pages were visited\n");
  for (void* const block : blocks) std::free(block);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::unique_ptr<const AllocatorModel> model;
  for (const Allocator one : {Allocator::kGlibc, Allocator::kJemalloc, Allocator::kTcmalloc, Allocator::kMimalloc})
    if (std::strcmp(name_of(one), argv[1]) == 0) model = make_model(one);
  if (model == nullptr) return 2;
  std::printf("%s\n", argv[1]);
  compare_usable_sizes(*model);
  if (model->allocator() != Allocator::kGlibc)
    for (const std::uint64_t size :
         {16, 48, 80, 112, 320, 448, 640, 1024, 1280, 2048, 3072, 4096, 5120, 7168, 8192, 10240, 14336})
      compare_spans(*model, size);
  if (model->allocator() == Allocator::kJemalloc) compare_with_mallctl(*model);
  if (model->allocator() == Allocator::kMimalloc) compare_with_areas(*model);
  if (failures != 0) std::printf("  %d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
