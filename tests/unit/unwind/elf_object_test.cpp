// The check whether code is loaded, while another thread may unload it. elf_object.cpp is compiled into this test
// with the test's own _dl_find_object, which returns a link_map that cannot be read.
#include <catch2/catch.hpp>
#include <cstdint>

#include "preload/unwind/elf_object.h"

namespace {

constexpr std::uint64_t kBegin = 0x10000000;
constexpr std::uint64_t kEnd = 0x10002000;
bool g_loaded = true;

/// The beginning of glibc's struct dl_find_object.
struct Result {
  unsigned long long flags;
  void* map_begin;
  void* map_end;
  void* object;
};

}  // namespace

extern "C" int find_object_of_test(void* address, Result* result);
extern "C" int find_object_of_test(void* address, Result* result) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (!g_loaded || at < kBegin || at >= kEnd) return -1;
  result->map_begin = reinterpret_cast<void*>(kBegin);
  result->map_end = reinterpret_cast<void*>(kEnd);
  result->object = reinterpret_cast<void*>(8);
  return 0;
}

using namespace heapprof::unwind;

TEST_CASE("the check whether code is loaded does not read its link_map") {
  const auto* const inside = reinterpret_cast<const void*>(kBegin + 16);
  g_loaded = true;
  CHECK_FALSE(is_unloaded(inside));
  CHECK(is_unloaded(reinterpret_cast<const void*>(kEnd)));
  CHECK(is_code(kBegin + 16));
  CHECK_FALSE(is_code(kEnd));
  CHECK(loaded_range(inside).begin == kBegin);
  CHECK(loaded_range(inside).end == kEnd);
  g_loaded = false;
  CHECK(is_unloaded(inside));
  CHECK(loaded_range(inside).end == 0);
}
