// What is remembered of pages that the host unmaps.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>

#include "preload/arch/arch.h"
#include "preload/python/readable_pages.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/trace/recording.h"
#include "preload/unwind/stack_bounds.h"

using namespace heapprof;
using namespace heapprof::recorder;

namespace {

constexpr std::size_t kPageBytes = 4096;

void* map_page() {
  void* const page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  return page;
}

}  // namespace

TEST_CASE("A page that is probed while the host unmaps it is not remembered as readable") {
  unwind::start_probing();
  const State state_before = g_state;
  g_state = State::kOff;
  const arch::EntryRegisters entry = arch::entry_registers();
  void* const page = map_page();
  const auto address = reinterpret_cast<std::uint64_t>(page);
  // Of another thread, which has an event between the hook's first report and the real call.
  python::ReadablePages pages{};
  SECTION("munmap") {
    unmap_begin(page, kPageBytes, entry);
    pages.begin_event();
    REQUIRE(pages.range(address, 8));
    munmap(page, kPageBytes);
    unmap_end(page, kPageBytes, true);
    pages.begin_event();
    CHECK_FALSE(pages.range(address, 8));
  }
  SECTION("mremap") {
    void* const place = map_page();
    remap_begin(page, kPageBytes, entry);
    pages.begin_event();
    REQUIRE(pages.range(address, 8));
    void* const moved = mremap(page, kPageBytes, kPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    REQUIRE(moved == place);
    remap_end(page, kPageBytes, moved, kPageBytes, entry);
    pages.begin_event();
    CHECK_FALSE(pages.range(address, 8));
    munmap(place, kPageBytes);
  }
  g_state = state_before;
}
