// The list of the recorder's own memory.
#include "preload/sys/own_mappings.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "preload/sys/kernel.h"

using namespace heapprof;

namespace {

/// An address of the given number, and a size that belongs to it.
void* address_of(std::uint64_t number) { return reinterpret_cast<void*>((number + 1) << 16); }
std::uint64_t size_of(std::uint64_t begin) { return (begin >> 16) % 16 + 1; }

}  // namespace

TEST_CASE("Memory that was unmapped is not the recorder's any more") {
  const auto is_listed = [](const void* memory) {
    for (std::size_t slot = 0; slot < sys::own_mapping_slots(); ++slot)
      if (sys::own_mapping(slot).begin == reinterpret_cast<std::uint64_t>(memory)) return true;
    return false;
  };
  void* const first = sys::map_private(4096);
  void* const second = sys::map_private(4096);
  CHECK((is_listed(first) && is_listed(second)));
  sys::unmap_private(first, 4096);
  CHECK((!is_listed(first) && is_listed(second)));
  sys::unmap_private(second, 4096);
  CHECK_FALSE(is_listed(second));
  std::vector<void*> many;
  for (int i = 0; i < 5000; ++i) many.push_back(sys::map_private(4096));
  CHECK((is_listed(many.front()) && is_listed(many.back())));
  for (void* const memory : many) sys::unmap_private(memory, 4096);
  CHECK_FALSE((is_listed(many.front()) || is_listed(many.back())));
}

TEST_CASE("A recording with very many extents needs few slots") {
  constexpr int kExtents = 100'000;
  const std::size_t before = sys::own_mapping_slots();
  // As a stream does: the next extent is mapped before the last one is unmapped.
  for (int i = 0; i < kExtents; ++i) {
    sys::add_own_mapping(address_of(static_cast<std::uint64_t>(i)), 1);
    if (i > 0) sys::remove_own_mapping(address_of(static_cast<std::uint64_t>(i) - 1));
  }
  CHECK(sys::own_mapping_slots() <= before + 3);  // two extents, and the table itself
  sys::remove_own_mapping(address_of(kExtents - 1));
}

TEST_CASE("Threads add and remove ranges while another one reads them") {
  constexpr unsigned kThreads = 4;
  constexpr std::uint64_t kHeld = 50, kRanges = 1000;
  // Below the addresses of real mappings.
  const auto end = reinterpret_cast<std::uint64_t>(address_of(kThreads * kRanges));
  const std::size_t before = sys::own_mapping_slots();
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([thread, &over] {
      const auto range = [thread](std::uint64_t i) { return address_of(thread * kRanges + i % kRanges); };
      std::uint64_t added = 0, removed = 0;
      while (!over || removed != added) {
        if (!over) {
          void* const address = range(added++);
          sys::add_own_mapping(address, size_of(reinterpret_cast<std::uint64_t>(address)));
        }
        if (added - removed > kHeld || over) sys::remove_own_mapping(range(removed++));
      }
    });
  std::size_t read = 0, wrong = 0;
  while (read < 200'000) {
    for (std::size_t slot = 0; slot < sys::own_mapping_slots(); ++slot) {
      const sys::OwnMapping range = sys::own_mapping(slot);
      if (range.begin == 0 || range.begin >= end) continue;
      ++read;
      wrong += range.bytes != size_of(range.begin);
    }
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(sys::own_mapping_slots() <= before + kThreads * (kHeld + 1) + 1);
  for (std::size_t slot = 0; slot < sys::own_mapping_slots(); ++slot) {
    const std::uint64_t begin = sys::own_mapping(slot).begin;
    if (begin != 0 && begin < end) FAIL_CHECK("the removed range " << begin << " is still listed");
  }
}
