// The lines of hand-made snapshots.
#include "analyzer/rss/snapshot_lines.h"

#include <catch2/catch.hpp>

#include <random>
#include <utility>

#include "common/trace_format.h"
#include "tests/support/seed.h"
#include "tests/support/snapshot_builder.h"

using namespace heapprof;
using namespace heapprof::rss;
using heapprof::test::SnapshotBuilder;

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kHugePage = 512 * kPage;
constexpr std::uint64_t kProgram = 0x400000;  // 16 pages
constexpr std::uint64_t kHeap = 0x1000000;
constexpr std::uint64_t kMappings = 0x7f0000000000;
constexpr std::uint64_t kLibrary = 0x7f8000000000;  // 16 pages

/// A process whose allocator is that of `library`.
class Process {
 public:
  explicit Process(const std::string& library = "/lib/libc.so.6") {
    profile_.nodes.resize(10);
    for (model::CallNode& node : profile_.nodes) node.address = 0;
    profile_.addresses.push_back({1, 0});  // the program
    profile_.addresses.push_back({2, 0});  // the library
    profile_.nodes[9].address = 1;
    profile_.modules.resize(3);
    set(profile_.modules[1], "/bin/demo", kProgram);
    profile_.modules[1].is_main = true;
    set(profile_.modules[2], library, kLibrary);
  }

  SnapshotBuilder snapshot;
  std::vector<PlacedBlock> blocks;
  PageRanges once_held;
  std::vector<replay::LiveMapping> mappings;

  ResidentMemory lines() const {
    allocators::ProcessAllocators allocators(profile_);
    LiveLayout live = lay_out(blocks, allocators);
    return classify(snapshot.read(), {profile_, std::move(allocators), std::move(live), once_held, mappings});
  }

 private:
  static void set(model::Module& module, const std::string& path, std::uint64_t address) {
    module.path = path;
    module.first_address = address;
    module.map_bytes = 16 * kPage;
  }

  model::Profile profile_;
};

using Bytes = std::vector<std::pair<std::string, std::uint64_t>>;

/// The lines that are not empty.
Bytes bytes_of(const ResidentMemory& memory) {
  Bytes result;
  for (std::size_t i = 0; i < kLines; ++i)
    if (memory.lines[i].bytes != 0) result.emplace_back(name_of(static_cast<Line>(i)), memory.lines[i].bytes);
  return result;
}

Bytes parts_of(const ResidentMemory& memory, Line line) {
  Bytes result;
  for (const Part& part : memory[line].parts)
    result.emplace_back(
        part.name + (part.writable ? " w" : "") + (part.node == model::kNoIndex ? "" : std::to_string(part.node)),
        part.bytes);
  return result;
}

}  // namespace

TEST_CASE("glibc's heap: requested, rounding, holes, returnable, metadata") {
  Process process;
  process.snapshot.mapping(kHeap, kHeap + 64 * kPage, "rw-p", "[heap]");
  process.snapshot.pages(kPresent, kHeap, kHeap + 20 * kPage);
  // One page with two blocks: chunks of 32 and 112 bytes. The next two are free, three never held a block.
  process.blocks = {{kHeap + 16, 24}, {kHeap + 0x50, 100}};
  process.once_held = {{kHeap, kHeap + 3 * kPage}, {kHeap + 30 * kPage, kHeap + 31 * kPage}};
  const ResidentMemory memory = process.lines();
  CHECK(bytes_of(memory) == Bytes{{"requested", 124},
                                  {"rounding", 20},
                                  {"holes", kPage - 144},
                                  {"returnable", 2 * kPage},
                                  {"metadata", 17 * kPage}});
  CHECK(memory.total_bytes() == 20 * kPage);
  CHECK(memory.not_resident_bytes == 0);
}

TEST_CASE("jemalloc: free pages of a slab with a live block are held back") {
  Process process("/lib/libjemalloc.so.2");
  const std::uint64_t slabs = kMappings;
  process.snapshot.mapping(slabs, slabs + 512 * kPage, "rw-p");
  process.snapshot.pages(kPresent, slabs, slabs + 12 * kPage);
  process.mappings = {{slabs, slabs + 512 * kPage, 1, kMapAnonymous | kMapFromAllocator}};
  // Blocks of 80 bytes: slabs of five pages. One block is left in the first slab, none in the second.
  process.blocks = {{slabs + 80, 70}};
  process.once_held = {{slabs, slabs + 10 * kPage}};
  CHECK(bytes_of(process.lines()) == Bytes{{"requested", 70},
                                           {"rounding", 10},
                                           {"holes", kPage - 80},
                                           {"held_back", 4 * kPage},
                                           {"returnable", 5 * kPage},
                                           {"metadata", 2 * kPage}});
}

TEST_CASE("pages of live blocks that are not resident are outside of the sum") {
  Process process;
  process.snapshot.mapping(kMappings, kMappings + 100 * kPage, "rw-p");
  process.snapshot.pages(kPresent, kMappings, kMappings + 2 * kPage);
  process.snapshot.pages(kSwapped, kMappings + 2 * kPage, kMappings + 5 * kPage);
  process.snapshot.pages(kPresent, kMappings + 5 * kPage, kMappings + 6 * kPage);
  process.snapshot.pages(kZero, kMappings + 5 * kPage, kMappings + 6 * kPage);
  process.blocks = {{kMappings + 16, 100 * kPage - 16}};
  const ResidentMemory memory = process.lines();
  CHECK(bytes_of(memory) == Bytes{{"requested", 2 * kPage - 16}, {"rounding", 16}});
  CHECK(memory.swapped_bytes == 3 * kPage);
  CHECK(memory.not_resident_bytes == 95 * kPage);
  // One table of each of three levels.
  CHECK(memory.page_table_bytes == 3 * kPage);
}

TEST_CASE("mappings of the program by stack, without those of an allocator") {
  Process process("/lib/libjemalloc.so.2");
  process.snapshot.mapping(kMappings, kMappings + 100 * kPage, "rw-p");
  process.snapshot.pages(kPresent, kMappings, kMappings + 60 * kPage);
  const auto piece = [&](std::uint64_t first, std::uint64_t last, std::uint32_t node, std::uint32_t flags) {
    process.mappings.push_back({kMappings + first * kPage, kMappings + last * kPage, node, flags});
  };
  piece(0, 10, 1, kMapAnonymous);
  piece(10, 20, 2, kMapAnonymous | kMapReserve);  // made accessible later
  piece(20, 30, 1, kMapAnonymous);
  piece(30, 40, 3, kMapAnonymous | kMapFromAllocator);
  piece(40, 50, 9, kMapAnonymous);  // called by the allocator's library
  piece(50, 58, 4, kMapAnonymous);  // a block is in it
  process.blocks = {{kMappings + 50 * kPage, kPage}};
  const ResidentMemory memory = process.lines();
  CHECK(parts_of(memory, Line::kMmap) == Bytes{{"1", 20 * kPage}, {"2", 10 * kPage}});
  // Pages 58 and 59 are in no recorded mapping, and no block was ever in them.
  CHECK(bytes_of(memory) ==
        Bytes{{"requested", kPage}, {"metadata", 27 * kPage}, {"mmap", 30 * kPage}, {"unknown", 2 * kPage}});
}

TEST_CASE("unrecorded memory is the allocator's if a block was in it") {
  Process process;
  // An arena of a thread, and memory that was mapped by a system call.
  process.snapshot.mapping(kMappings, kMappings + 33 * kPage, "rw-p");
  process.snapshot.mapping(kMappings + 33 * kPage, kMappings + 64 * kPage, "---p");
  process.snapshot.mapping(kMappings + 100 * kPage, kMappings + 110 * kPage, "rw-p");
  process.snapshot.pages(kPresent, kMappings, kMappings + 8 * kPage);
  process.snapshot.pages(kPresent, kMappings + 100 * kPage, kMappings + 105 * kPage);
  process.blocks = {{kMappings + kPage + 16, 4 * kPage}};
  process.once_held = {{kMappings + kPage, kMappings + 7 * kPage}};
  const ResidentMemory memory = process.lines();
  // malloc_trim does not return the free end of the arena's heap.
  CHECK(parts_of(memory, Line::kHeldBack) == Bytes{{"free ends of the heaps of threads", kPage}});
  CHECK(bytes_of(memory) == Bytes{{"requested", 4 * kPage},
                                  {"rounding", 16},
                                  {"holes", kPage - 16},
                                  {"held_back", kPage},
                                  {"metadata", 2 * kPage},
                                  {"unknown", 5 * kPage}});
}

TEST_CASE("malloc_trim returns the free end of an arena's heap that was full, but not the arena's top") {
  Process process;
  constexpr std::uint64_t kHeapBytes = 64 << 20;
  constexpr std::uint64_t kNext = kMappings + kHeapBytes;
  process.snapshot.mapping(kMappings, kNext + kHeapBytes, "rw-p");
  process.snapshot.pages(kPresent, kMappings, kMappings + 20 * kPage);
  process.snapshot.pages(kPresent, kNext - 8 * kPage, kNext + 10 * kPage);
  process.blocks = {{kMappings + 0x8c0, 100}, {kNext + 3 * kPage + 16, 100}};
  process.once_held = {{kMappings, kNext + 8 * kPage}};
  const ResidentMemory memory = process.lines();
  // Of the first heap 19 pages and its last eight; of the next one the three before its block.
  CHECK(bytes_of(memory) == Bytes{{"requested", 200},
                                  {"rounding", 24},
                                  {"holes", 2 * kPage - 224},
                                  {"held_back", 4 * kPage},
                                  {"returnable", 30 * kPage},
                                  {"metadata", 2 * kPage}});
  CHECK(parts_of(memory, Line::kHeldBack) == Bytes{{"free ends of the heaps of threads", 4 * kPage}});
}

TEST_CASE("a private mapping of /dev/zero is anonymous memory") {
  Process process;
  process.snapshot.mapping(0x10000000, 0x10000000 + 10 * kPage, "rw-p", "/dev/zero");
  process.snapshot.pages(kPresent, 0x10000000, 0x10000000 + 4 * kPage);
  process.snapshot.statm_bytes = 4 * kPage;
  const ResidentMemory memory = process.lines();
  CHECK(bytes_of(memory) == Bytes{{"unknown", 4 * kPage}});
}

TEST_CASE("pages of hugetlbfs need no page tables") {
  std::uint64_t table_bytes[2] = {};
  for (const bool huge : {false, true}) {
    Process process;
    process.snapshot.mapping(0x90000000, 0x90000000 + 4096 * kPage, "rw-s",
                             huge ? "/anon_hugepage (deleted)" : "/memfd:ring (deleted)");
    process.snapshot.pages(kPresent, 0x90000000, 0x90000000 + 4096 * kPage);
    table_bytes[huge] = process.lines().page_table_bytes;
  }
  CHECK(table_bytes[false] >= 8 * kPage);
  CHECK(table_bytes[true] == 0);
}

namespace {

/// Adds a mapping of two huge pages at the `number`-th place, of which the first is resident.
void add_huge_pages(Process& process, std::uint64_t number, const char* access, const char* name,
                    std::uint64_t device) {
  const std::uint64_t begin = 0x40000000 + number * 4 * kHugePage;
  process.snapshot.mapping(begin, begin + 2 * kHugePage, access, name, device);
  process.snapshot.pages(kPresent, begin, begin + kHugePage);
  process.snapshot.pages(kHuge, begin, begin + kHugePage);
}

/// Adds a memfd of tmpfs with that many resident pages.
void add_small_pages(Process& process, std::uint64_t number, std::uint64_t pages, std::uint64_t device) {
  const std::uint64_t begin = 0x40000000 + number * 4 * kHugePage;
  process.snapshot.mapping(begin, begin + 400 * kPage, "rw-s", "/memfd:ring (deleted)", device);
  process.snapshot.pages(kPresent, begin, begin + pages * kPage);
}

}  // namespace

TEST_CASE("memfds, System V memory and files of hugetlbfs are outside of resident memory: by a name on the device") {
  Process process;
  add_huge_pages(process, 0, "rw-p", "/anon_hugepage (deleted)", 0x11);
  add_huge_pages(process, 1, "rw-s", "/memfd:large (deleted)", 0x11);
  add_huge_pages(process, 2, "rw-p", "/memfd:large (deleted)", 0x11);
  add_huge_pages(process, 3, "rw-s", "/SYSV00000000 (deleted)", 0x11);
  add_huge_pages(process, 4, "rw-s", "/memfd:transparent (deleted)", 1);
  add_small_pages(process, 5, 3, 1);
  const ResidentMemory memory = process.lines();
  CHECK(bytes_of(memory) == Bytes{{"shared", kHugePage + 3 * kPage}});
  CHECK(memory.huge_tlb_bytes == 4 * kHugePage);
}

TEST_CASE("memfds, System V memory and files of hugetlbfs are outside of resident memory: by the kernel's count") {
  for (const bool counted : {false, true}) {
    Process process;
    add_huge_pages(process, 0, "rw-s", "/memfd:large (deleted)", 0x11);
    add_huge_pages(process, 1, "rw-s", "/SYSV00000000 (deleted)", 0x11);
    add_huge_pages(process, 2, "rw-s", "/mnt/huge/ring", 0x20);
    add_small_pages(process, 3, 3, 1);
    // Pages of tmpfs can be huge, too: transparent huge pages are resident. The process has grown by a page
    // meanwhile.
    process.snapshot.statm_bytes = (counted ? 3 * kHugePage : 0) + 2 * kPage;
    const ResidentMemory memory = process.lines();
    CHECK(memory[Line::kShared].bytes == (counted ? 2 * kHugePage : 0) + 3 * kPage);
    CHECK(memory[Line::kFiles].bytes == (counted ? kHugePage : 0));
    CHECK(memory.huge_tlb_bytes == (counted ? 0 : 3 * kHugePage));
  }
}

TEST_CASE("transparent huge pages of tmpfs are resident, also if the process grows during the snapshot") {
  Process process;
  add_huge_pages(process, 0, "rw-s", "/memfd:transparent (deleted)", 1);
  add_small_pages(process, 1, 300, 5);
  process.snapshot.statm_bytes = kHugePage;
  const ResidentMemory memory = process.lines();
  CHECK(memory[Line::kShared].bytes == kHugePage + 300 * kPage);
  CHECK(memory.huge_tlb_bytes == 0);
}

TEST_CASE("a device with smaller pages, or smaller mappings, is not of hugetlbfs, however few pages were counted") {
  for (const std::uint64_t pages : {3, 0}) {
    Process process;
    add_huge_pages(process, 0, "rw-s", "/memfd:transparent (deleted)", 1);
    add_small_pages(process, 1, pages, 1);
    process.snapshot.statm_bytes = kPage;
    const ResidentMemory memory = process.lines();
    CHECK(bytes_of(memory) == Bytes{{"shared", kHugePage + pages * kPage}});
    CHECK(memory.huge_tlb_bytes == 0);
  }
}

TEST_CASE("blocks on pages of hugetlbfs are not untouched") {
  Process process;
  add_huge_pages(process, 0, "rw-p", "/anon_hugepage (deleted)", 0x11);
  process.blocks = {{0x40000000 + kHugePage - 2 * kPage, 5 * kPage}};
  CHECK(process.lines().not_resident_bytes == 3 * kPage);
}

TEST_CASE("recorder, files, shared memory and stacks") {
  Process process;
  SnapshotBuilder& snapshot = process.snapshot;
  const auto add = [&](std::uint64_t begin, std::uint64_t pages, const char* access, const char* name,
                       std::uint64_t resident) {
    snapshot.mapping(begin, begin + pages * kPage, access, name);
    snapshot.pages(kPresent, begin, begin + resident * kPage);
  };
  add(kProgram, 8, "r-xp", "/bin/demo", 6);
  add(kProgram + 8 * kPage, 4, "rw-p", "/bin/demo", 4);
  add(kProgram + 12 * kPage, 8, "rw-p", "", 8);  // four pages are the program's .bss
  add(0x10000000, 10, "rw-s", "/tmp/data", 3);
  add(0x20000000, 10, "rw-s", "/memfd:ring (deleted)", 2);
  add(0x20100000, 10, "rw-s", "/dev/zero (deleted)", 1);
  add(0x30000000, 10, "rw-s", "/tmp/demo.heapprof", 5);
  add(0x40000000, 10, "rw-p", "", 10);  // two pages are the recorder's
  add(0x50000000, 1, "---p", "", 0);
  add(0x50001000, 16, "rw-p", "", 7);  // a thread's stack
  add(0x60000000, 1, "---p", "", 0);
  add(0x60001000, 16, "rw-p", "", 3);  // of a thread that has ended
  add(0x7ffff000, 16, "rw-p", "[stack]", 9);
  add(0x80000000, 2, "r--p", "[vvar]", 2);
  add(0x90000000, 512, "rw-s", "/anon_hugepage (deleted)", 512);
  snapshot.recorder(0x30000000, 10 * kPage);
  snapshot.recorder(0x40000000 + 8 * kPage, kPage + 1);
  snapshot.stack(77, 0x50008000, 0x50011000);
  snapshot.stack(78, 0x123456, 0);  // nothing is mapped there
  snapshot.statm_bytes = 58 * kPage;
  snapshot.shared_bytes = 19 * kPage;
  const ResidentMemory memory = process.lines();
  CHECK(bytes_of(memory) == Bytes{{"files", 17 * kPage},
                                  {"stacks", 19 * kPage},
                                  {"shared", 3 * kPage},
                                  {"recorder", 7 * kPage},
                                  {"unknown", 12 * kPage}});
  CHECK(parts_of(memory, Line::kFiles) ==
        Bytes{{"/bin/demo w", 8 * kPage}, {"/bin/demo", 6 * kPage}, {"/tmp/data", 3 * kPage}});
  CHECK(parts_of(memory, Line::kStacks) ==
        Bytes{{"main thread", 9 * kPage},
              {"other threads", 7 * kPage},
              {"threads without a recorded event, or that have ended", 3 * kPage}});
  CHECK(parts_of(memory, Line::kShared) ==
        Bytes{{"/memfd:ring (deleted)", 2 * kPage}, {"/dev/zero (deleted)", kPage}});
  CHECK(parts_of(memory, Line::kRecorder) ==
        Bytes{{"/tmp/demo.heapprof", 5 * kPage}, {"anonymous memory", 2 * kPage}});
  CHECK(memory.huge_tlb_bytes == 512 * kPage);
  // 39 pages are private, 37 of them anonymous.
  CHECK(memory.written_file_bytes == 2 * kPage);
}

TEST_CASE("files of modules have the names of links by which they were loaded, but keep their version") {
  for (const auto& [file, name] :
       {std::pair("/bin/demo-1.2", "/bin/demo-1.2"), std::pair("/bin/tools", "/bin/demo")}) {
    Process process;
    process.snapshot.mapping(kProgram, kProgram + 8 * kPage, "r-xp", file);
    process.snapshot.pages(kPresent, kProgram, kProgram + 3 * kPage);
    CHECK(parts_of(process.lines(), Line::kFiles) == Bytes{{name, 3 * kPage}});
  }
}

TEST_CASE("data of the allocator's library and unused parts of huge pages are metadata") {
  Process process("/lib/libjemalloc.so.2");
  process.snapshot.mapping(kMappings, kMappings + 512 * kPage, "rw-p");
  process.snapshot.pages(kPresent, kMappings, kMappings + 512 * kPage);
  process.snapshot.pages(kHuge, kMappings, kMappings + 512 * kPage);
  process.snapshot.mapping(kLibrary, kLibrary + 4 * kPage, "r-xp", "/lib/libjemalloc.so.2");
  process.snapshot.mapping(kLibrary + 4 * kPage, kLibrary + 6 * kPage, "rw-p", "/lib/libjemalloc.so.2");
  process.snapshot.mapping(kLibrary + 6 * kPage, kLibrary + 20 * kPage, "rw-p");
  process.snapshot.pages(kPresent, kLibrary, kLibrary + 8 * kPage);
  process.mappings = {{kMappings, kMappings + 512 * kPage, 1, kMapAnonymous | kMapFromAllocator}};
  process.blocks = {{kMappings, kPage}};
  const ResidentMemory memory = process.lines();
  CHECK(parts_of(memory, Line::kMetadata) ==
        Bytes{{"pages of huge pages without blocks", 511 * kPage}, {"/lib/libjemalloc.so.2 w", 4 * kPage}});
  CHECK(bytes_of(memory) == Bytes{{"requested", kPage}, {"metadata", 515 * kPage}, {"files", 4 * kPage}});
}

TEST_CASE("whatever a damaged trace contains, every resident page is in one line") {
  std::mt19937_64 random(test::given_seed());
  for (int round = 0; round < 300; ++round) {
    Process process(round % 2 == 0 ? "/lib/libc.so.6" : "/lib/libtcmalloc_minimal.so.4");
    std::uint64_t at = 0x100000;
    std::uint64_t resident = 0;
    for (int i = 0; i < 12; ++i) {
      static constexpr const char* kNames[] = {"", "", "", "[heap]", "[stack]", "/bin/demo", "/dev/shm/x"};
      const std::uint64_t begin = at + random() % 3 * kPage;
      const std::uint64_t pages = 1 + random() % 40;
      process.snapshot.mapping(begin, begin + pages * kPage, random() % 5 == 0 ? "---p" : "rw-p",
                               kNames[random() % std::size(kNames)]);
      for (std::uint64_t page = 0; page < pages; ++page) {
        if (random() % 3 == 0) continue;
        process.snapshot.pages(kPresent, begin + page * kPage, begin + (page + 1) * kPage);
        resident += kPage;
      }
      at = begin + pages * kPage;
    }
    const auto anywhere = [&] { return random() % 20 == 0 ? random() : 0x100000 + random() % (at - 0x100000); };
    for (std::uint64_t i = random() % 40; i != 0; --i)
      process.blocks.push_back({anywhere(), random() % 30 == 0 ? random() : random() % 9000});
    for (std::uint64_t i = random() % 5; i != 0; --i) process.snapshot.recorder(anywhere(), random() % 20'000);
    for (std::uint64_t i = random() % 5; i != 0; --i) process.snapshot.stack(i, anywhere(), anywhere());
    std::vector<AddressRange> held;
    for (std::uint64_t i = random() % 10; i != 0; --i) {
      const std::uint64_t begin = 0x100000 + random() % 300 * kPage;
      held.push_back({begin, begin + random() % 30 * kPage});
    }
    process.once_held = pins::joined(std::move(held));
    std::uint64_t mapped = 0x100000;
    for (std::uint64_t i = random() % 6; i != 0; --i) {
      const std::uint64_t begin = mapped + random() % 30 * kPage;
      mapped = begin + (1 + random() % 60) * kPage;
      process.mappings.push_back(
          {begin, mapped, static_cast<std::uint32_t>(random() % 10), static_cast<std::uint32_t>(random() % 8)});
    }
    const ResidentMemory memory = process.lines();
    REQUIRE(memory.total_bytes() == resident);
    for (std::size_t i = 0; i < kLines; ++i) {
      std::uint64_t parts = 0;
      for (const Part& part : memory.lines[i].parts) parts += part.bytes;
      REQUIRE(parts <= memory.lines[i].bytes);
    }
  }
}
