// Snapshots of resident pages: what one contains, in parts as in one go, with every method, and their budget.
#include "preload/recorder/residency/snapshot.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "preload/recorder/residency/snapshot_budget.h"
#include "preload/recorder/residency/snapshots.h"
#include "preload/sys/own_mappings.h"
#include "preload/sys/proc_file.h"
#include "tests/support/system_calls.h"
#include "tests/unit/recorder/stream_fixture.h"
#include "tests/unit/recorder/thread_fixture.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

namespace {

constexpr Ticks kNow{0};                       // one step
constexpr Ticks kLate{~std::uint64_t{0} / 2};  // until it is finished

/// A snapshot as it is in the trace.
struct Taken {
  bool begun = false;
  bool ended = false;
  bool complete = false;
  SnapshotMethod method{};
  std::map<std::uint64_t, PageGroup> groups;
  std::map<std::uint64_t, std::string> mappings;  ///< by address
  std::map<std::uint64_t, std::uint64_t> recorder;

  bool begin(const ResidencyBegin& item) { return method = item.method, begun = true; }
  bool mapping(const ResidencyMapping& item) {
    mappings[item.first_page * 4096] = std::string(item.name, item.name_bytes);
    return true;
  }
  bool group(const PageGroup& item) { return groups.emplace(item.number, item).second; }
  bool recorder_range(std::uint64_t address, std::uint64_t bytes) { return recorder[address] = bytes, true; }
  bool stack(const ResidencyStack&) { return true; }
  bool end(const ResidencyEnd& item) { return complete = item.complete, ended = true; }

  bool has(unsigned plane, const char* address) const {
    const std::uint64_t page = reinterpret_cast<std::uint64_t>(address) / 4096;
    const auto found = groups.find(page / kGroupPages);
    return found != groups.end() && (found->second.planes[plane][page % kGroupPages / 64] >> page % 64 & 1) != 0;
  }
};

/// decode_residency() calls recorder(), which is the name of a namespace here.
struct Decoder {
  Taken& taken;
  bool begin(const ResidencyBegin& item) { return taken.begin(item); }
  bool mapping(const ResidencyMapping& item) { return taken.mapping(item); }
  bool group(const PageGroup& item) { return taken.group(item); }
  bool recorder(std::uint64_t address, std::uint64_t bytes) { return taken.recorder_range(address, bytes); }
  bool stack(const ResidencyStack& item) { return taken.stack(item); }
  bool end(const ResidencyEnd& item) { return taken.end(item); }
};

struct Files {
  Files() {
    REQUIRE(maps.open("/proc/self/maps") == 0);
    REQUIRE(pagemap.open("/proc/self/pagemap") == 0);
  }
  ~Files() {
    maps.close();
    pagemap.close();
  }
  Snapshot::Source source() const { return {&maps, &pagemap, {1, 1}}; }
  sys::ProcFile maps, pagemap;
};

/// The snapshots in the first stream of a trace, by number.
std::map<std::uint64_t, Taken> taken_in(const std::string& path) {
  std::map<std::uint64_t, Taken> result;
  std::map<std::uint64_t, std::uint64_t> pieces;
  for (const Text& text : read_stream(path, StreamId{1}).texts) {
    if (text.record.node != static_cast<std::uint32_t>(TextKind::kResidency)) continue;
    REQUIRE(text.record.address == pieces[text.record.size()]++);
    Decoder decoder{result[text.record.size()]};
    REQUIRE(decode_residency(reinterpret_cast<const std::uint8_t*>(text.text.data()), text.text.size(), decoder));
  }
  return result;
}

std::map<std::uint64_t, Taken> taken_in(const StreamFixture& recording) { return taken_in(recording.folder / "t"); }

/// 1,200 pages of which every third was written.
struct Pages {
  static constexpr std::size_t kCount = 1200;
  Pages()
      : at(static_cast<char*>(
            mmap(nullptr, kCount * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(at != MAP_FAILED);
    madvise(at, kCount * 4096, MADV_NOHUGEPAGE);
    for (std::size_t page = 0; page < kCount; page += 3) at[page * 4096] = 1;
  }
  ~Pages() { munmap(at, kCount * 4096); }
  void check(const Taken& taken) const {
    for (std::size_t page = 0; page < kCount; ++page) {
      const bool present = taken.has(kPresent, at + page * 4096);
      if (present != (page % 3 == 0)) FAIL("page " << page << (present ? " is present" : " is not present"));
    }
  }
  char* at;
};

/// Takes a whole snapshot while `result_of` replaces the system calls with these numbers. nullopt, without a
/// snapshot: they cannot be replaced here (with_replaced_calls).
std::optional<Snapshot::Progress> run_with_replaced_calls(StreamFixture& recording, const Files& files,
                                                          Snapshot& snapshot, std::initializer_list<long> numbers,
                                                          SystemCallResult result_of) {
  Snapshot::Progress progress{};
  const bool replaced = with_replaced_calls(numbers, std::move(result_of), [&] {
    snapshot.begin(recording.state->stream, SnapshotReason::kMark, files.source());
    progress = snapshot.run(recording.state->stream, kLate);
  });
  return replaced ? std::optional(progress) : std::nullopt;
}

/// For a test case in which the ioctl is missing. Then mincore reads private anonymous memory in pieces of 32 MB, and
/// ThreadSanitizer has mapped terabytes of it: a million calls, which take longer than a test may.
bool skip_with_thread_sanitizer() {
#ifdef __SANITIZE_THREAD__
  skip_case("it would read the terabytes that ThreadSanitizer has mapped, in pieces of 32 MB");
  return true;
#else
  return false;
#endif
}

}  // namespace

TEST_CASE("A snapshot has the resident pages of the process, and the recorder's memory") {
  StreamFixture recording;
  const Pages pages;
  const Files files;  // after the pages: qemu-user writes /proc/self/maps when it is opened
  void* const own = sys::map_private(8192);
  Snapshot snapshot;
  REQUIRE(snapshot.begin(recording.state->stream, SnapshotReason::kRequest, files.source()));
  CHECK(snapshot.run(recording.state->stream, kLate) == Snapshot::Progress::kFinished);
  CHECK_FALSE(snapshot.unfinished());
  CHECK(snapshot.run(recording.state->stream, kLate) == Snapshot::Progress::kIdle);
  const auto all = taken_in(recording);
  REQUIRE(all.size() == 1);
  const Taken& taken = all.at(1);
  CHECK(taken.begun);
  CHECK(taken.complete);
  pages.check(taken);
  CHECK(taken.recorder.at(reinterpret_cast<std::uint64_t>(own)) == 8192);
  sys::unmap_private(own, 8192);
}

TEST_CASE("A snapshot in parts is the same as in one go") {
  StreamFixture recording;
  const Pages pages;
  const Files files;  // after the pages: qemu-user writes /proc/self/maps when it is opened
  Snapshot snapshot;
  REQUIRE(snapshot.begin(recording.state->stream, SnapshotReason::kMark, files.source()));
  unsigned parts = 1;
  while (snapshot.run(recording.state->stream, kNow) == Snapshot::Progress::kRunning) ++parts;
  CHECK(parts > 20);
  REQUIRE(snapshot.begin(recording.state->stream, SnapshotReason::kMark, files.source()));
  REQUIRE(snapshot.run(recording.state->stream, kLate) == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  REQUIRE(all.size() == 2);
  CHECK(all.at(1).complete);
  pages.check(all.at(1));
  pages.check(all.at(2));
  // The program's own file; the trace's mappings change while it is written.
  const auto of_program = [](const Taken& taken) {
    std::map<std::uint64_t, std::string> result;
    for (const auto& [address, name] : taken.mappings)
      if (name.ends_with("recorder_test")) result.emplace(address, name);
    return result;
  };
  CHECK_FALSE(of_program(all.at(1)).empty());
  CHECK((of_program(all.at(1)) == of_program(all.at(2))));
}

TEST_CASE("A snapshot that another one replaces, or that was dropped, is incomplete") {
  StreamFixture recording;
  const Files files;
  Stream& stream = recording.state->stream;
  Snapshot snapshot;
  REQUIRE(snapshot.begin(stream, SnapshotReason::kMark, files.source()));
  REQUIRE(snapshot.run(stream, kNow) == Snapshot::Progress::kRunning);
  REQUIRE(snapshot.begin(stream, SnapshotReason::kExit, files.source()));
  REQUIRE(snapshot.run(stream, kNow) == Snapshot::Progress::kRunning);
  snapshot.drop();
  REQUIRE(snapshot.begin(stream, SnapshotReason::kExit, files.source()));
  REQUIRE(snapshot.run(stream, kLate) == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  REQUIRE(all.size() == 3);
  CHECK(all.at(1).ended);
  CHECK_FALSE(all.at(1).complete);
  CHECK_FALSE(all.at(2).ended);
  CHECK(all.at(3).complete);
}

TEST_CASE("Where the ioctl is missing, the pages are the same") {
  if (skip_with_thread_sanitizer()) return;
  StreamFixture recording;
  const Pages pages;
  const Files files;  // after the pages: qemu-user writes /proc/self/maps when it is opened
  Snapshot snapshot;
  const auto progress =
      run_with_replaced_calls(recording, files, snapshot, {SYS_ioctl}, [](SystemCall&) -> long { return -ENOTTY; });
  if (!progress) return;
  REQUIRE(progress == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  CHECK(all.at(1).method == SnapshotMethod::kMincore);
  pages.check(all.at(1));
}

namespace {

/// struct pm_scan_arg of linux/fs.h.
struct ScanArguments {
  std::uint64_t size, flags, start, end, walk_end, regions, max_regions, max_pages, inverted, all_of, any_of,
      returned;
};

/// Answers PAGEMAP_SCAN as the kernel does if the memory at `at` has these regions, in page numbers.
long scan_result(const SystemCall& call, const char* at, std::initializer_list<PageRegion> known) {
  const auto& arguments = *reinterpret_cast<const ScanArguments*>(call.arguments[2]);
  auto* const out = reinterpret_cast<PageRegion*>(arguments.regions);
  long count = 0;
  for (const PageRegion& pages : known) {
    const std::uint64_t begin = std::max(reinterpret_cast<std::uint64_t>(at) + pages.begin * 4096, arguments.start);
    const std::uint64_t end = std::min(reinterpret_cast<std::uint64_t>(at) + pages.end * 4096, arguments.end);
    if (begin < end && (pages.categories & arguments.any_of) != 0)
      out[count++] = {begin, end, pages.categories & arguments.returned};
  }
  return count;
}

}  // namespace

TEST_CASE("Swapped, zero and huge pages that the kernel returns are in the snapshot") {
  StreamFixture recording;
  const Pages pages;
  const Files files;
  Snapshot snapshot;
  const auto progress =
      run_with_replaced_calls(recording, files, snapshot, {SYS_ioctl}, [&](SystemCall& call) -> long {
        return scan_result(call, pages.at,
                           {{0, 3, kCategorySwapped},
                            {3, 4, kCategoryPresent},
                            {4, 600, kCategorySwapped},
                            {600, 601, kCategoryPresent | kCategoryZero},
                            {601, 1113, kCategoryPresent | kCategoryHuge}});
      });
  if (!progress) return;
  REQUIRE(progress == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  const Taken& taken = all.at(1);
  CHECK(taken.method == SnapshotMethod::kPagemapScan);
  for (std::size_t page = 0; page < Pages::kCount; ++page) {
    CAPTURE(page);
    const char* const at = pages.at + page * 4096;
    CHECK(taken.has(kSwapped, at) == (page < 600 && page != 3));
    CHECK(taken.has(kPresent, at) == (page == 3 || (page >= 600 && page < 1113)));
    CHECK(taken.has(kZero, at) == (page == 600));
    CHECK(taken.has(kHuge, at) == (page > 600 && page < 1113));
  }
}

TEST_CASE("Without the ioctl, swapped pages of shared memory are read from pagemap") {
  if (skip_with_thread_sanitizer()) return;
  constexpr std::size_t kPages = 1500;
  // Documentation/admin-guide/mm/pagemap.rst
  constexpr std::uint64_t kEntries[] = {std::uint64_t{1} << 63 /* present */, std::uint64_t{1} << 62 /* swapped */,
                                        0};
  StreamFixture recording;
  auto* const shared =
      static_cast<char*>(mmap(nullptr, kPages * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  REQUIRE(shared != MAP_FAILED);
  const Files files;
  Snapshot snapshot;
  const auto progress = run_with_replaced_calls(
      recording, files, snapshot, {SYS_ioctl, SYS_pread64},
      [&, pagemap = files.pagemap.descriptor()](SystemCall& call) -> long {
        if (call.number == SYS_ioctl) return -ENOTTY;
        if (call.arguments[0] != pagemap) return call.make();
        auto* const out = reinterpret_cast<std::uint64_t*>(call.arguments[1]);
        const auto bytes = static_cast<std::uint64_t>(call.arguments[2]);
        const std::uint64_t first = static_cast<std::uint64_t>(call.arguments[3]) / sizeof *out;
        for (std::uint64_t i = 0; i < bytes / sizeof *out; ++i) {
          const std::uint64_t page = first + i - reinterpret_cast<std::uint64_t>(shared) / 4096;
          out[i] = page < kPages ? kEntries[page % 3] : 0;
        }
        return call.arguments[2];
      });
  if (progress) {
    REQUIRE(progress == Snapshot::Progress::kFinished);
    const auto all = taken_in(recording);
    CHECK(all.at(1).method == SnapshotMethod::kMincore);
    for (std::size_t page = 0; page < kPages; ++page) {
      CAPTURE(page);
      CHECK(all.at(1).has(kPresent, shared + page * 4096) == (page % 3 == 0));
      CHECK(all.at(1).has(kSwapped, shared + page * 4096) == (page % 3 == 1));
    }
  }
  munmap(shared, kPages * 4096);
}

namespace {

/// 30,000 pages, from a page whose number is not a multiple of 8: some written, some only read, some untouched; parts
/// with many and with few of them.
struct ManyPages {
  static constexpr std::size_t kCount = 30'000;
  enum class Kind { kUntouched, kWritten, kRead };
  ManyPages()
      : memory(static_cast<char*>(
            mmap(nullptr, (kCount + 1024) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    REQUIRE(memory != MAP_FAILED);
    at =
        reinterpret_cast<char*>(((reinterpret_cast<std::uintptr_t>(memory) + (2 << 20) - 1) & -(2 << 20)) + 3 * 4096);
    REQUIRE(mprotect(at, kCount * 4096, PROT_READ | PROT_WRITE) == 0);
    madvise(at, kCount * 4096, MADV_NOHUGEPAGE);
    for (std::size_t page = 0; page < kCount; ++page) {
      if (kind(page) == Kind::kWritten) at[page * 4096] = 1;
      else if (kind(page) == Kind::kRead) static_cast<void>(static_cast<volatile char*>(at)[page * 4096]);
    }
  }
  ~ManyPages() { munmap(memory, (kCount + 1024) * 4096); }

  static Kind kind(std::size_t page) {
    const std::size_t part = page / 5000, hash = page * 2654435761 >> 7;
    switch (part) {
      case 0: return Kind::kWritten;
      case 1: return hash % 10 == 0 ? Kind::kRead : hash % 3 != 0 ? Kind::kWritten : Kind::kUntouched;
      case 2: return Kind::kUntouched;
      case 3: return hash % 100 == 0 ? Kind::kWritten : Kind::kUntouched;
      case 4: return page % 2 == 0 ? Kind::kWritten : Kind::kRead;
      default: return page % 2 == 0 ? Kind::kWritten : Kind::kUntouched;
    }
  }
  void check(const Taken& taken) const {
    for (std::size_t page = 0; page < kCount; ++page) {
      const bool present = taken.has(kPresent, at + page * 4096), zero = taken.has(kZero, at + page * 4096);
      if (present != (kind(page) != Kind::kUntouched) || zero != (kind(page) == Kind::kRead))
        FAIL("page " << page << (present ? " is present" : " is not present") << (zero ? ", zero" : ""));
    }
  }
  char* memory;
  char* at;
};

}  // namespace

TEST_CASE("Large anonymous memory is read by mincore and by the ioctl, with the same result as by the ioctl alone") {
  const ManyPages pages;
  // Without mincore, as if a part of the memory was unmapped meanwhile.
  for (const bool unmapped : {false, true}) {
    StreamFixture recording;
    const Files files;
    Snapshot snapshot;
    unsigned calls = 0;
    const auto progress =
        run_with_replaced_calls(recording, files, snapshot, {SYS_mincore}, [&](SystemCall& call) -> long {
          ++calls;
          return unmapped ? -ENOMEM : call.make();
        });
    if (!progress) return;
    CHECK(calls > 0);
    REQUIRE(progress == Snapshot::Progress::kFinished);
    const auto all = taken_in(recording);
    if (all.at(1).method == SnapshotMethod::kPagemapScan) pages.check(all.at(1));
  }
}

TEST_CASE("Guard pages are neither present nor swapped") {
  constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
  StreamFixture recording;
  const Pages pages;
  // Every third page was written; some of these lose their content.
  madvise(pages.at + 600 * 4096, 100 * 4096, kGuardInstall);
  const Files files;
  std::uint64_t entry = 0;
  const auto position = static_cast<off_t>((reinterpret_cast<std::uintptr_t>(pages.at) / 4096 + 600) * sizeof entry);
  if (pread(files.pagemap.descriptor(), &entry, sizeof entry, position) != sizeof entry || (entry >> 58 & 1) == 0) {
    skip_case("the kernel has no guard pages, or does not show them");
    return;
  }
  Snapshot snapshot;
  REQUIRE(snapshot.begin(recording.state->stream, SnapshotReason::kMark, files.source()));
  REQUIRE(snapshot.run(recording.state->stream, kLate) == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  for (std::size_t page = 0; page < Pages::kCount; ++page) {
    CAPTURE(page);
    const bool is_guard = page >= 600 && page < 700;
    CHECK(all.at(1).has(kPresent, pages.at + page * 4096) == (page % 3 == 0 && !is_guard));
    CHECK_FALSE(all.at(1).has(kSwapped, pages.at + page * 4096));
  }
}

TEST_CASE("A kernel that does not know guard pages has the same pages") {
  StreamFixture recording;
  const Pages pages;
  const Files files;
  Snapshot snapshot;
  const auto progress =
      run_with_replaced_calls(recording, files, snapshot, {SYS_ioctl}, [&](SystemCall& call) -> long {
        const auto& arguments = *reinterpret_cast<const ScanArguments*>(call.arguments[2]);
        constexpr std::uint64_t kKnown = 0xff;
        return ((arguments.all_of | arguments.inverted | arguments.any_of | arguments.returned) & ~kKnown) != 0
                   ? -EINVAL
                   : call.make();
      });
  if (!progress) return;
  REQUIRE(progress == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  CHECK(all.at(1).method == SnapshotMethod::kPagemapScan);
  pages.check(all.at(1));
}

TEST_CASE("A page that is swapped for the ioctl and present for mincore is swapped") {
  StreamFixture recording;
  const ManyPages pages;
  const Files files;
  Snapshot snapshot;
  const auto progress =
      run_with_replaced_calls(recording, files, snapshot, {SYS_ioctl, SYS_mincore}, [&](SystemCall& call) -> long {
        if (call.number == SYS_ioctl)
          return scan_result(call, pages.at,
                             {{0, 4000, kCategoryPresent},
                              {4000, 4001, kCategorySwapped},
                              {4001, 4700, kCategoryPresent},
                              {4700, 4701, kCategoryPresent | kCategoryZero},
                              {4701, 6000, kCategorySwapped},
                              {6000, 7024, kCategoryPresent | kCategoryHuge}});
        std::memset(reinterpret_cast<void*>(call.arguments[2]), 0xff,
                    static_cast<std::size_t>(call.arguments[1]) / 4096);
        return 0;
      });
  if (!progress) return;
  REQUIRE(progress == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  const Taken& taken = all.at(1);
  for (std::size_t page = 2048; page < 7024; ++page) {
    CAPTURE(page);
    const bool swapped = page == 4000 || (page > 4700 && page < 6000);
    const char* const at = pages.at + page * 4096;
    if (taken.has(kSwapped, at) != swapped || taken.has(kPresent, at) == swapped ||
        taken.has(kZero, at) != (page == 4700) || taken.has(kHuge, at) != (page >= 6000))
      FAIL();
  }
}

TEST_CASE("A snapshot has one method: a call that fails for a while makes it incomplete") {
  StreamFixture recording;
  const Pages pages;
  const Files files;
  Snapshot snapshot;
  Snapshot::Progress first{}, second{};
  int calls = 0;
  bool fails = true;
  const bool replaced = with_replaced_calls(
      {SYS_ioctl}, [&](SystemCall& call) -> long { return ++calls >= 3 && fails ? -ENOSYS : call.make(); },
      [&] {
        snapshot.begin(recording.state->stream, SnapshotReason::kMark, files.source());
        first = snapshot.run(recording.state->stream, kLate);
        fails = false;
        snapshot.begin(recording.state->stream, SnapshotReason::kMark, files.source());
        second = snapshot.run(recording.state->stream, kLate);
      });
  if (!replaced) return;
  CHECK(first == Snapshot::Progress::kFailed);
  CHECK(second == Snapshot::Progress::kFinished);
  const auto all = taken_in(recording);
  CHECK_FALSE(all.at(1).complete);
  CHECK(all.at(2).complete);
  CHECK(all.at(2).method == SnapshotMethod::kPagemapScan);
  pages.check(all.at(2));
}

TEST_CASE("The host may close the files in the middle of a snapshot; the next one opens them again") {
  const ThreadFixture recording(65536);
  start_snapshots();
  int calls = 0;
  const bool replaced = with_replaced_calls(
      {SYS_ioctl},
      [&](SystemCall& call) -> long {
        if (++calls == 3) close(static_cast<int>(call.arguments[0]));
        return call.make();
      },
      [&] {
        ThreadState* const thread = attach_thread();
        take_snapshot(*thread, SnapshotReason::kRequest);
        take_snapshot(*thread, SnapshotReason::kRequest);
      });
  if (replaced) {
    const auto all = taken_in(recording.folder / "t");
    REQUIRE(all.size() == 2);
    CHECK_FALSE(all.at(1).complete);
    CHECK(all.at(2).begun);  // it may need more than 50 ms
  }
  close_snapshots();
}

TEST_CASE("A snapshot is incomplete if the host puts another file in the place of one that is read") {
  for (const bool replaces_maps : {false, true}) {
    StreamFixture recording;
    const Pages pages;
    const Files files;
    const int replaced_file = (replaces_maps ? files.maps : files.pagemap).descriptor();
    Snapshot snapshot;
    int calls = 0;
    const auto progress =
        run_with_replaced_calls(recording, files, snapshot, {SYS_ioctl, SYS_pread64}, [&](SystemCall& call) -> long {
          // The second piece of maps, or the second range of pages.
          if (call.arguments[0] == replaced_file && ++calls == 3) {
            const int nothing = open("/dev/null", O_RDWR);
            dup2(nothing, replaced_file);
            close(nothing);
          }
          return call.make();
        });
    if (!progress) return;
    CHECK(calls > 2);
    CHECK(progress == Snapshot::Progress::kFailed);
    CHECK(snapshot.error() == -EBADF);
    CHECK_FALSE(taken_in(recording).at(1).complete);
    close(replaced_file);
  }
}

TEST_CASE("A refused call ends the snapshot as incomplete, with the reason") {
  StreamFixture recording;
  const Files files;
  Snapshot snapshot;
  const auto progress =
      run_with_replaced_calls(recording, files, snapshot, {SYS_ioctl}, [](SystemCall&) -> long { return -EPERM; });
  if (!progress) return;
  CHECK(progress == Snapshot::Progress::kFailed);
  CHECK(snapshot.error() == -EPERM);
  const auto all = taken_in(recording);
  REQUIRE(all.size() == 1);
  CHECK(all.at(1).ended);
  CHECK_FALSE(all.at(1).complete);
}

#ifndef __SANITIZE_THREAD__  // it delays signals
namespace {

/// Calls `handler` in a signal handler after `delay_us`, during the lifetime of this object.
struct Alarm {
  Alarm(void (*handler)(int), suseconds_t delay_us) {
    struct sigaction action {};
    action.sa_handler = handler;
    sigaction(SIGALRM, &action, &before);
    const itimerval time{{0, 0}, {0, delay_us}};
    setitimer(ITIMER_REAL, &time, nullptr);
  }
  ~Alarm() {
    const itimerval none{};
    setitimer(ITIMER_REAL, &none, nullptr);
    sigaction(SIGALRM, &before, nullptr);
  }
  struct sigaction before {};
};

sigjmp_buf g_before_snapshot;
Stream* g_stream;
volatile pid_t g_forked;

constexpr suseconds_t kMaxDelayUs = 600;  // a snapshot of the test takes some 500

/// Takes a snapshot, which a signal handler leaves after `delay_us`, unless it has ended before.
[[gnu::noinline]] bool is_abandoned(Snapshot& snapshot, const Snapshot::Source& source, suseconds_t delay_us) {
  if (sigsetjmp(g_before_snapshot, 1) != 0) return true;
  const Alarm alarm([](int) { siglongjmp(g_before_snapshot, 1); }, delay_us);
  snapshot.begin(*g_stream, SnapshotReason::kRequest, source);
  snapshot.run(*g_stream, kLate);
  return false;
}

}  // namespace

TEST_CASE("A signal handler may leave a snapshot by longjmp; the next one is complete") {
  const Pages pages;
  const Files files;
  Snapshot snapshot;
  unsigned abandoned = 0;
  {
    StreamFixture recording;
    g_stream = &recording.state->stream;
    for (suseconds_t delay = 1; delay < kMaxDelayUs; delay += 2) {
      if (!is_abandoned(snapshot, files.source(), delay)) continue;
      ++abandoned;
      snapshot.drop();
      g_stream->end_run();
    }
  }
  CHECK(abandoned > 10);
  // In another trace, because an abandoned extent may have no header, which the reader of the test requires.
  StreamFixture recording;
  Stream& stream = recording.state->stream;
  REQUIRE(snapshot.begin(stream, SnapshotReason::kRequest, files.source()));
  REQUIRE(snapshot.run(stream, kLate) == Snapshot::Progress::kFinished);
  const Taken last = taken_in(recording).rbegin()->second;
  CHECK(last.complete);
  pages.check(last);
}

namespace {

/// Starts the fork watch. False: forks are not detected here, as in qemu-user; the test case is skipped.
bool watch_forks() {
  REQUIRE(start_fork_watch());
  int detected = 0;
  if (const pid_t child = fork(); child == 0) _exit(in_forked_child() ? 0 : 1);
  else REQUIRE(waitpid(child, &detected, 0) == child);
  if (detected == 0) return true;
  stop_fork_watch();
  skip_case("forks are not detected here (MADV_WIPEONFORK)");
  return false;
}

}  // namespace

TEST_CASE("A signal handler may fork in a snapshot: the parent's is complete, and the child writes none") {
  StreamFixture recording;
  const Pages pages;
  const Files files;
  if (!watch_forks()) return;
  g_stream = &recording.state->stream;
  Snapshot snapshot;
  std::uint64_t begun = 0, forked = 0;
  for (suseconds_t delay = 1; delay < kMaxDelayUs; delay += 5) {
    g_forked = -1;
    ++begun;
    {
      const Alarm alarm(
          [](int) {
            g_forked = fork();
            if (g_forked == 0) g_stream->detach_from_parent();
          },
          delay);
      snapshot.begin(*g_stream, SnapshotReason::kRequest, files.source());
      snapshot.run(*g_stream, kLate);
    }
    if (g_forked == 0) _exit(0);
    if (g_forked < 0) continue;
    ++forked;
    int status = 0;
    REQUIRE(waitpid(g_forked, &status, 0) == g_forked);
    REQUIRE(status == 0);
  }
  stop_fork_watch();
  CHECK(forked > 10);
  const auto all = taken_in(recording);
  CHECK(all.size() == begun);
  const auto mappings_of_program = [](const Taken& taken) {
    return std::count_if(taken.mappings.begin(), taken.mappings.end(),
                         [](const auto& mapping) { return mapping.second.ends_with("recorder_test"); });
  };
  for (const auto& [number, taken] : all) {
    CAPTURE(number);
    CHECK(taken.complete);
    CHECK(mappings_of_program(taken) == mappings_of_program(all.at(1)));
    CHECK(taken.mappings.rbegin()->second == all.at(1).mappings.rbegin()->second);
    pages.check(taken);
  }
}

TEST_CASE("A forked child that continues its parent's snapshot does not move what the parent reads") {
  // Each page is a mapping, because neighbours differ in their protection: some 20 kB of /proc/self/maps.
  constexpr std::size_t kCount = 400;
  char* const lines = static_cast<char*>(mmap(nullptr, kCount * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(lines != MAP_FAILED);
  for (std::size_t page = 1; page < kCount; page += 2) REQUIRE(mprotect(lines + page * 4096, 4096, PROT_NONE) == 0);
  StreamFixture recording;
  const Files files;
  if (!watch_forks()) return;
  Stream& stream = recording.state->stream;
  Snapshot snapshot;
  REQUIRE(snapshot.begin(stream, SnapshotReason::kRequest, files.source()));
  const auto address = reinterpret_cast<std::uint64_t>(lines);
  const auto half = [&] {
    const Taken taken = taken_in(recording)[1];
    return taken.mappings.count(address + kCount / 2 * 4096) != 0;
  };
  while (!half()) REQUIRE(snapshot.run(stream, kNow) == Snapshot::Progress::kRunning);
  const pid_t child = fork();
  if (child == 0) {
    stream.detach_from_parent();
    _exit(snapshot.run(stream, kLate) == Snapshot::Progress::kFailed ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  // 50 lines become one.
  REQUIRE(mprotect(lines, 51 * 4096, PROT_READ) == 0);
  REQUIRE(snapshot.run(stream, kLate) == Snapshot::Progress::kFinished);
  stop_fork_watch();
  const Taken taken = taken_in(recording)[1];
  CHECK(taken.complete);
  std::size_t missing = 0;
  for (std::size_t page = kCount / 2; page < kCount; ++page)
    missing += 1 - taken.mappings.count(address + page * 4096);
  CHECK(missing == 0);
  munmap(lines, kCount * 4096);
}

#endif

TEST_CASE("The budget is 5 ms and 0.5 % of the elapsed time") {
  constexpr std::uint64_t kMs = 1'000'000, kSecond = 1000 * kMs, kGiB = std::uint64_t{1} << 30;
  SnapshotBudget budget;
  CHECK(budget.slice_ns(0, 0) == 5 * kMs);
  CHECK(budget.slice_ns(0, kGiB) == 0);  // 5 ms are estimated, and a little more
  CHECK(budget.slice_ns(kSecond, kGiB) == 10 * kMs);
  budget.spend(10 * kMs);
  CHECK(budget.slice_ns(kSecond, 0) == 0);
  CHECK(budget.slice_ns(2 * kSecond, 0) == 5 * kMs);
  CHECK(budget.slice_ns(1000 * kSecond, 0) == SnapshotBudget::kMaxSliceNs);
  // From now on the estimate is 10 ms a GiB.
  budget.finished(kGiB, 10 * kMs);
  CHECK(budget.estimate_ns(2 * kGiB) > 19 * kMs);
  CHECK(budget.estimate_ns(2 * kGiB) < 21 * kMs);
  CHECK(budget.estimate_ns(1000 * kGiB) == SnapshotBudget::kMaxSliceNs);
  CHECK(budget.estimate_ns(~std::uint64_t{0}) == SnapshotBudget::kMaxSliceNs);
  budget.finished(0, 0);
  CHECK(budget.estimate_ns(0) == 0);
}
