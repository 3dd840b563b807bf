// What is recorded and remembered of pages that the host unmaps.
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "preload/arch/arch.h"
#include "preload/hooks/mappings.h"
#include "preload/python/readable_pages.h"
#include "preload/recorder/control/control.h"
#include "preload/recorder/control/sampler.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/trace/recording.h"
#include "preload/unwind/stack_bounds.h"
#include "preload/unwind/unwinder.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

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

TEST_CASE("A page that the kernel has unmapped for a call that fails is not remembered as readable") {
  unwind::start_probing();
  const State state_before = g_state;
  g_state = State::kOff;
  const arch::EntryRegisters entry = arch::entry_registers();
  void* const page = map_page();
  void* const other = map_page();
  const auto address = reinterpret_cast<std::uint64_t>(page);
  python::ReadablePages pages{};
  bool read_during_call = false;
  // Another thread has an event after the call has begun. Then the kernel unmaps the page, and finds that it cannot
  // complete the call.
  const auto fail = [&] {
    pages.begin_event();
    read_during_call = pages.range(address, 8);
    munmap(page, kPageBytes);
    return MAP_FAILED;
  };
  constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP
  SECTION("mmap") { hooks::record_mmap(page, kPageBytes, PROT_READ, kAnonymous | MAP_FIXED, entry, fail); }
  SECTION("mremap that moves a mapping") {
    hooks::record_mremap(other, kPageBytes, kPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED, page, entry, fail);
  }
  SECTION("mremap of which the old range stays mapped") {
    hooks::record_mremap(other, kPageBytes, kPageBytes, MREMAP_MAYMOVE | MREMAP_FIXED | kDontUnmap, page, entry,
                         fail);
  }
  pages.begin_event();
  CHECK(read_during_call);
  CHECK_FALSE(pages.range(address, 8));
  munmap(other, kPageBytes);
  g_state = state_before;
}

TEST_CASE("The end of a range that mremap was to shrink is not remembered as readable after the call has failed") {
  unwind::start_probing();
  const State state_before = g_state;
  g_state = State::kOff;
  const arch::EntryRegisters entry = arch::entry_registers();
  void* const pages_to_move = mmap(nullptr, 2 * kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages_to_move != MAP_FAILED);
  void* const end = static_cast<char*>(pages_to_move) + kPageBytes;
  const auto address = reinterpret_cast<std::uint64_t>(end);
  python::ReadablePages pages{};
  remap_begin(pages_to_move, 2 * kPageBytes, entry);
  pages.begin_event();
  REQUIRE(pages.range(address, 8));
  munmap(end, kPageBytes);
  remap_end(pages_to_move, 2 * kPageBytes, nullptr, kPageBytes, entry);
  pages.begin_event();
  CHECK_FALSE(pages.range(address, 8));
  munmap(pages_to_move, kPageBytes);
  g_state = state_before;
}

TEST_CASE("A program that only maps memory while recording is paused handles a request") {
  REQUIRE(unwind::start({.max_depth = 64, .shadow_stack = true}));
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  const State state_before = g_state;
  g_state = State::kOn;
  reset_mailbox();
  FileHeader::Mailbox& mailbox = g_trace.header()->mailbox;
  const arch::EntryRegisters entry = arch::entry_registers();
  const auto at = [](std::uint64_t address) { return reinterpret_cast<const void*>(address); };
  const auto resumes = [&](auto&& map) {
    g_pause = 1;
    g_next_sample = 0;
    state->stream.end_run();
    mailbox.command = static_cast<std::uint32_t>(MailboxCommand::kResume);
    ++mailbox.request;
    map();
    const bool resumed = !paused();
    g_pause = 0;
    return resumed;
  };
  const bool by_mmap = resumes([&] { mapped(at(0x20000), 0x1000, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, entry); });
  const bool by_brk = resumes([&] { break_moved(at(0x10000), at(0x14000), entry); });
  g_state = state_before;
  CHECK(by_mmap);
  CHECK(by_brk);
}

TEST_CASE("While recording is paused, only what unmaps memory is recorded") {
  REQUIRE(unwind::start({.max_depth = 64, .shadow_stack = true}));
  const ThreadFixture recording(65536);
  ThreadState* const state = attach_thread();
  REQUIRE(state != nullptr);
  const State state_before = g_state;
  g_state = State::kOn;
  g_pause = 1;
  const arch::EntryRegisters entry = arch::entry_registers();
  const auto at = [](std::uint64_t address) { return reinterpret_cast<const void*>(address); };
  constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  break_moved(at(0x10000), at(0x14000), entry);
  break_moved(at(0x14000), at(0x11000), entry);
  mapped(at(0x20000), 0x2000, PROT_READ, kAnonymous, entry);
  mapped(at(0x21000), 0x1000, PROT_READ, kAnonymous | MAP_FIXED, entry);
  // mremap that maps shared pages a second time.
  void* const old_pages = reinterpret_cast<void*>(std::uint64_t{0x30000});
  void* const place = reinterpret_cast<void*>(std::uint64_t{0x31000});
  hooks::record_mremap(old_pages, 0, 0x1000, MREMAP_MAYMOVE, nullptr, entry, [&] { return place; });
  hooks::record_mremap(old_pages, 0, 0x2000, MREMAP_MAYMOVE | MREMAP_FIXED, place, entry, [&] { return place; });
  // mremap that moves a mapping.
  hooks::record_mremap(old_pages, 0x1000, 0x3000, MREMAP_MAYMOVE | MREMAP_FIXED, place, entry, [&] { return place; });
  g_pause = 0;
  g_state = state_before;
  std::vector<Slot> found;
  for (const Slot& slot : read_stream(recording.folder / "t", state->stream.id()).records)
    if (slot.op() >= Op::kMap && slot.op() <= Op::kBrk) found.push_back(slot);
  REQUIRE(found.size() == 9);
  CHECK(found[0].op() == Op::kBrk);
  CHECK(found[0].address == 0x11000);
  CHECK(found[0].size() == 0x14000);
  CHECK(found[1].op() == Op::kUnmapBegin);
  CHECK(found[1].address == 0x21000);
  CHECK(found[1].size() == 0x1000);
  CHECK(found[2].op() == Op::kUnmapEnd);
  CHECK(found[3].op() == Op::kUnmapBegin);
  CHECK(found[3].address == 0x31000);
  CHECK(found[3].size() == 0x2000);
  CHECK(found[4].op() == Op::kUnmapEnd);
  CHECK(found[5].op() == Op::kRemapBegin);
  CHECK(found[5].address == 0x30000);
  CHECK(found[5].size() == 0x1000);
  CHECK(found[6].op() == Op::kRemapEnd);
  CHECK(found[6].address == 0);
  CHECK(found[6].size() == 0);
  CHECK(found[7].op() == Op::kUnmapBegin);
  CHECK(found[7].address == 0x31000);
  CHECK(found[7].size() == 0x3000);
  CHECK(found[8].op() == Op::kUnmapEnd);
}
