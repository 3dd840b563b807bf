// The list of the recorder's own memory.
#include "preload/sys/own_mappings.h"

#include <catch2/catch.hpp>
#include <vector>

#include "preload/sys/kernel.h"

using namespace heapprof;

TEST_CASE("Memory that was unmapped is not the recorder's any more") {
  const auto is_listed = [](const void* memory) {
    for (std::size_t slot = 0; slot < sys::own_mapping_slots(); ++slot)
      if (sys::own_mapping(slot).begin == reinterpret_cast<std::uint64_t>(memory)) return true;
    return false;
  };
  void* const first = sys::map_private(4096);
  void* const second = sys::map_private(4096);
  const std::size_t slots = sys::own_mapping_slots();
  CHECK((is_listed(first) && is_listed(second)));
  sys::unmap_private(first, 4096);
  CHECK((!is_listed(first) && is_listed(second)));
  sys::unmap_private(second, 4096);
  CHECK_FALSE(is_listed(second));
  CHECK(sys::own_mapping_slots() == slots - 1);
  std::vector<void*> many;
  for (int i = 0; i < 5000; ++i) many.push_back(sys::map_private(4096));
  CHECK((is_listed(many.front()) && is_listed(many.back())));
  for (void* const memory : many) sys::unmap_private(memory, 4096);
  CHECK_FALSE((is_listed(many.front()) || is_listed(many.back())));
}
