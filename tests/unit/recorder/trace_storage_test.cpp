// The trace file and the streams in it, without hooks: what they wrote is read back from the file's bytes.
#include "preload/recorder/trace/trace_storage.h"

#include <catch2/catch.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/checksum.h"
#include "preload/recorder/call_tree/call_tree.h"
#include "preload/recorder/trace/stream.h"
#include "tests/support/seed.h"
#include "tests/support/system_calls.h"
#include "tests/unit/recorder/read_back.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

TEST_CASE("a pattern's letters are replaced, and dangerous names made harmless") {
  char result[256];
  REQUIRE(expand_pattern("a.%e.%p.%t.%%.%x%", "../e/vil", 42, 7'999'999'999, result, sizeof result));
  CHECK(std::string(result) == "a._._e_vil.42.7.%.%x%");
  char small[4];
  CHECK_FALSE(expand_pattern("%e", "longer", 1, 0, small, sizeof small));
}

TEST_CASE("the trace is made private, in new folders, and never over another file") {
  Folder folder;
  const std::string wanted = folder / "new/deep/t.hprof";
  TraceFile first, second;
  REQUIRE(first.create(wanted.c_str(), "p", 0, 0) == nullptr);
  first.publish_header();
  CHECK(first.path() == wanted);
  CHECK((std::filesystem::status(wanted).permissions() & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  REQUIRE(second.create(wanted.c_str(), "p", 0, 0) == nullptr);
  CHECK(second.path() == wanted + ".1");

  std::filesystem::create_symlink(folder / "victim", folder / "link.hprof");
  TraceFile third;
  REQUIRE(third.create((folder / "link.hprof").c_str(), "p", 0, 0) == nullptr);
  CHECK(third.path() == folder / "link.hprof.1");
  CHECK_FALSE(std::filesystem::exists(folder / "victim"));

  FileHeader header;
  std::memcpy(&header, bytes_of(wanted).data(), sizeof header);
  CHECK(std::memcmp(header.magic, kFileMagic, sizeof kFileMagic) == 0);
  CHECK(header.checksum == checksum(&header, offsetof(FileHeader, checksum)));
}

TEST_CASE("a stream's events are in the file at every moment, across blocks") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  file.publish_header();
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 4096) == nullptr);
  constexpr unsigned kEvents = 20'000;
  for (unsigned i = 0; i < kEvents; ++i) {
    REQUIRE(stream.append(Op::kAlloc, i, 16 * (i * 7919u % 1000u), i, i % 50, 0));
    // The file is read while it is written: around the change of blocks after each event, else now and then.
    if (i < 300 || i % 4999 == 0) {
      unsigned events = 0;
      for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) events += slot.op() == Op::kAlloc;
      REQUIRE(events == i + 1);
    }
  }
  const Read read = read_stream(folder / "t", StreamId{1});
  CHECK(read.frames > 100);
  std::uint64_t expected = 0;
  for (const Slot& slot : read.records) {
    if (slot.op() == Op::kBlockStart) {
      REQUIRE(slot.address == expected);
      continue;
    }
    REQUIRE(slot.time == expected);
    REQUIRE(slot.size() == expected);
    REQUIRE(slot.address == 16 * (expected * 7919u % 1000u));
    REQUIRE(slot.node == expected % 50);
    ++expected;
  }
  CHECK(expected == kEvents);
}

TEST_CASE("time in a stream never runs backwards") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 4096) == nullptr);
  for (std::uint64_t time : {5u, 9u, 7u, 10u}) stream.append(Op::kFree, time, 16, 0, 0, 0);
  std::vector<std::uint64_t> times;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) times.push_back(slot.time);
  CHECK(times == std::vector<std::uint64_t>{0, 5, 9, 9, 10});
}

TEST_CASE("a stream that meets the size limit says so and keeps what it has") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 4096 + 65536 + 65536) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 65536) == nullptr);
  std::uint64_t state = heapprof::test::seed(1);
  unsigned committed = 0;
  const auto random = [&] { return state = state * 6364136223846793005 + 1442695040888963407; };
  while (stream.append(Op::kAlloc, committed, random() >> 20, random() >> 50,
                       static_cast<std::uint32_t>(random() >> 40), 0))
    ++committed;
  CHECK(std::string(stream.failure()) == "HEAPPROF_MAX_FILE_SIZE is reached");
  unsigned events = 0;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) events += slot.op() == Op::kAlloc;
  CHECK(events == committed);
  CHECK(std::filesystem::file_size(folder / "t") == 4096 + 65536 + 65536);
}

TEST_CASE("RLIMIT_FSIZE stops the trace without a signal") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{8192, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  Failure failure;
  void* extent = file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(extent == nullptr);
  REQUIRE(failure != nullptr);
  CHECK(std::string(failure).find("ulimit -f") != std::string::npos);
  sigset_t pending;
  sigpending(&pending);
  CHECK_FALSE(sigismember(&pending, SIGXFSZ));
}

/// File sizes are limited to this while it lives.
struct FileSizeLimit {
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit limit{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before;
};

/// Signals that the calling thread has blocked, as text.
std::string blocked_signals() {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  std::string result;
  for (int signal = 1; signal < NSIG; ++signal) result += sigismember(&blocked, signal) == 1 ? '1' : '0';
  return result;
}

/// Descriptors that are open, by what they lead to.
std::vector<std::string> open_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    files.push_back(std::filesystem::read_symlink(entry, gone));
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("Signals that interrupt the reservation of space do not end the recording") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  const std::string blocked_before = blocked_signals();
  std::string blocked_after;
  int interruptions = 0;
  Failure failure = nullptr;
  void* extent = nullptr;
  const bool answered = with_answered_calls(
      {SYS_fallocate},
      [&](SystemCall& call) { return interruptions < 3 ? ++interruptions, -EINTR : call.make(); },
      [&] {
        extent = file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure);
        blocked_after = blocked_signals();
      });
  if (!answered) {
    WARN("no seccomp filter here");
    return;
  }
  CHECK(failure == nullptr);
  REQUIRE(extent != nullptr);
  CHECK(interruptions == 3);
  CHECK(std::filesystem::file_size(folder / "t") == 4096 + 65536);
  CHECK(blocked_after == blocked_before);
}

TEST_CASE("A reservation that is always interrupted fails; it does not repeat for ever") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Failure failure = nullptr;
  void* extent = nullptr;
  const bool answered = with_answered_calls(
      {SYS_fallocate}, [](SystemCall&) { return -EINTR; },
      [&] { extent = file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure); });
  if (!answered) {
    WARN("no seccomp filter here");
    return;
  }
  CHECK(extent == nullptr);
  CHECK(failure != nullptr);
}

TEST_CASE("A thread whose system calls are forbidden while it extends the trace keeps none of its signals blocked") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  bool exceeds_limit = false;
  SECTION("The extension succeeds") {}
  SECTION("The extension exceeds the limit on file sizes") { exceeds_limit = true; }
  const std::string blocked_before = blocked_signals();
  std::string blocked_after;
  bool forbidden = false, pending = false;
  long result = 0;
  bool answered;
  {
    const FileSizeLimit limit(exceeds_limit ? 4096 + 100 : 4096 + 65536);
    answered = with_answered_calls(
        {SYS_fallocate},
        [&](SystemCall& call) {
          // Another thread enters seccomp here.
          sys::g_forbidden = 1;
          forbidden = true;
          return result = call.make();
        },
        [&] {
          Failure failure = nullptr;
          file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure);
          sys::g_forbidden = 0;
          blocked_after = blocked_signals();
          sigset_t signals;
          sigpending(&signals);
          pending = sigismember(&signals, SIGXFSZ);
        });
  }
  if (!answered) {
    WARN("no seccomp filter here");
    return;
  }
  REQUIRE(forbidden);
  REQUIRE(result == (exceeds_limit ? -EFBIG : 0));
  CHECK(blocked_after == blocked_before);
  CHECK_FALSE(pending);
}

TEST_CASE("Signals that could not be blocked are not unblocked") {
  sigset_t usual, blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &blocked, &usual);
  const std::string before = blocked_signals();
  sys::g_forbidden = 1;
  sys::SignalsHeld held(sys::kAllButFaults);
  sys::g_forbidden = 0;
  held.finish(0);
  const std::string after = blocked_signals();
  pthread_sigmask(SIG_SETMASK, &usual, nullptr);
  CHECK(after == before);
}

TEST_CASE("Without reservation, short and interrupted writes are completed") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  int writes = 0;
  Failure failure = nullptr;
  void* extent = nullptr;
  const bool answered = with_answered_calls(
      {SYS_fallocate, SYS_pwrite64},
      [&](SystemCall& call) -> long {
        if (call.number == SYS_fallocate) return -EOPNOTSUPP;
        if (++writes % 3 == 0) return -EINTR;
        call.arguments[2] = std::min(call.arguments[2], 1000L);
        return call.make();
      },
      [&] { extent = file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure); });
  if (!answered) {
    WARN("no seccomp filter here");
    return;
  }
  CHECK(failure == nullptr);
  REQUIRE(extent != nullptr);
  CHECK(std::filesystem::file_size(folder / "t") == 4096 + 65536);
}

TEST_CASE("Without reservation, a write that the size limit cuts short is a failure") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Failure failure = nullptr;
  void* extent = nullptr;
  bool answered;
  {
    const FileSizeLimit limit(4096 + 65536 - 100);  // inside the last page, of which the kernel writes a part
    answered = with_answered_calls(
        {SYS_fallocate}, [](SystemCall&) { return -EOPNOTSUPP; },
        [&] { extent = file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure); });
  }
  if (!answered) {
    WARN("no seccomp filter here");
    return;
  }
  CHECK(extent == nullptr);
  REQUIRE(failure != nullptr);
  CHECK(std::string(failure).find("ulimit -f") != std::string::npos);
}

TEST_CASE("Without reservation, a write that writes nothing is a failure") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Failure failure = nullptr;
  void* extent = nullptr;
  const bool answered = with_answered_calls(
      {SYS_fallocate, SYS_pwrite64},
      [](SystemCall& call) -> long { return call.number == SYS_fallocate ? -EOPNOTSUPP : 0; },
      [&] { extent = file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure); });
  if (!answered) {
    WARN("no seccomp filter here");
    return;
  }
  CHECK(extent == nullptr);
  CHECK(failure != nullptr);
}

TEST_CASE("Signals that interrupt the opening of the trace do not prevent the recording") {
  Folder folder;
  TraceFile file;
  int interruptions = 0;
  Failure failure = "not tried";
  const bool answered = with_answered_calls(
      {SYS_openat, SYS_statx},
      [&](SystemCall& call) { return ++interruptions % 3 != 0 ? -EINTR : call.make(); },
      [&] {
        failure = file.create((folder / "t").c_str(), "p", 0, 0);
        if (failure == nullptr) file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure);
      });
  if (!answered) {
    WARN("no seccomp filter here");
    return;
  }
  CHECK(failure == nullptr);
  CHECK(interruptions > 3);
  CHECK(file.path() == folder / "t");
}

TEST_CASE("A trace that can't be extended at its start leaves neither a file nor a descriptor") {
  Folder folder;
  const std::vector<std::string> before = open_files();
  TraceFile file;
  Failure failure;
  {
    const FileSizeLimit limit(100);
    failure = file.create((folder / "t").c_str(), "p", 0, 0);
  }
  REQUIRE(failure != nullptr);
  CHECK(std::string(failure).find("ulimit -f") != std::string::npos);
  CHECK(open_files() == before);
  CHECK(std::filesystem::is_empty(folder.path));
  CHECK(file.path() == folder / "t");  // for the message
}

TEST_CASE("A new block begins with its block start committed") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 4096) == nullptr);
  const auto commit = [&] {
    std::uint64_t word;
    std::memcpy(&word, bytes_of(folder / "t").data() + 4096 + offsetof(StagingHeader, commit), sizeof word);
    return word;
  };
  CHECK(commit() == commit_word(0, 1));
  while (stream.sequence() == 0) REQUIRE(stream.append(Op::kAlloc, 1, 16, 1, 1, 0));
  CHECK(commit() == commit_word(1, 2));  // the block start, and the event that found the block before full
  CHECK(read_stream(folder / "t", StreamId{1}).records.rbegin()[1].op() == Op::kBlockStart);
}

TEST_CASE("a descriptor that the host closed is found again by path, one it took over is left alone") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  for (int fd = 3; fd < 1100; ++fd) {
    char link[64], target[4096];
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, target, sizeof target);
    if (length < 0 || std::string(target, static_cast<std::size_t>(length)) != folder / "t") continue;
    std::ofstream(folder / "other") << "other";
    const int other = open((folder / "other").c_str(), O_RDWR);
    REQUIRE(dup2(other, fd) == fd);
    close(other);
    Failure failure;
    CHECK(file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure) != nullptr);
    CHECK(std::filesystem::file_size(folder / "other") == 5);
    std::filesystem::remove(folder / "t");
    // With the path gone too there is nowhere to go: a reason, and nothing written anywhere.
    char moved[64];
    for (int mine = 3; mine < 1100; ++mine) {
      std::snprintf(moved, sizeof moved, "/proc/self/fd/%d", mine);
      const ssize_t n = readlink(moved, target, sizeof target);
      if (n > 0 && std::string(target, static_cast<std::size_t>(n)).find(folder / "t") == 0) close(mine);
    }
    CHECK(file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 1, failure) == nullptr);
    CHECK(failure != nullptr);
    return;
  }
  FAIL("the trace's descriptor was not found");
}

/// A path for the i-th node.
std::uint64_t path(unsigned i) { return i * 0x9e3779b97f4a7c15 >> 7; }

TEST_CASE("the call tree finds a node again, and defines each once when one thread adds") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  Stream stream;
  REQUIRE(stream.open(file, StreamId{1}, 65536) == nullptr);
  g_call_tree.reset();
  constexpr unsigned kNodes = 100'000;  // the table doubles several times
  std::vector<NodeId> ids;
  for (unsigned i = 0; i < kNodes; ++i)
    ids.push_back(g_call_tree.child(NodeId{i % 77}, ModuleId{2 + i % 3}, i, i % 2, path(i), stream));
  CHECK(g_call_tree.size() == kNodes);
  for (unsigned i = 0; i < kNodes; ++i)
    REQUIRE(g_call_tree.child(NodeId{i % 77}, ModuleId{2 + i % 3}, i, i % 2, path(i), stream) == ids[i]);
  CHECK(g_call_tree.size() == kNodes);
  CHECK(g_call_tree.child(NodeId{1}, ModuleId{2}, 0, 0, path(0), stream) != ids[0]);

  unsigned defined = 0;
  for (const Slot& slot : read_stream(folder / "t", StreamId{1}).records) {
    if (slot.op() != Op::kNode || defined == kNodes) continue;
    REQUIRE(slot.node == raw(ids[defined]));
    REQUIRE((slot.size() & 0xffffffff) == defined % 77);
    REQUIRE(slot.size() >> 32 == 2 + defined % 3);
    REQUIRE(slot.address == defined);
    ++defined;
  }
  CHECK(defined == kNodes);
}

TEST_CASE("threads that add the same nodes at once agree up to duplicates of equal content") {
  Folder folder;
  TraceFile file;
  REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr);
  g_call_tree.reset();
  constexpr unsigned kNodes = 50'000;
  std::vector<std::vector<NodeId>> ids(4);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Stream stream;
      if (stream.open(file, StreamId{t + 1}, 65536) != nullptr) return;
      for (unsigned i = 0; i < kNodes; ++i)
        ids[t].push_back(g_call_tree.child(NodeId::kNone, ModuleId{2}, i, 0, path(i), stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::uint64_t> content(g_call_tree.size() + 1, ~std::uint64_t{0});
  for (unsigned t = 0; t < 4; ++t)
    for (const Slot& slot : read_stream(folder / "t", StreamId{t + 1}).records)
      if (slot.op() == Op::kNode) content.at(slot.node) = slot.address;
  for (unsigned t = 0; t < 4; ++t) {
    REQUIRE(ids[t].size() == kNodes);
    for (unsigned i = 0; i < kNodes; ++i) REQUIRE(content.at(raw(ids[t][i])) == i);
  }
}
