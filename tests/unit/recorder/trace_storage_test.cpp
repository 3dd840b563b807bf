// The trace file, without hooks: created, extended, and what happens when that fails.
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
#include <vector>

#include "common/checksum.h"
#include "tests/support/system_calls.h"
#include "tests/unit/recorder/read_back.h"

using namespace heapprof;
using namespace heapprof::recorder;
using namespace heapprof::test;

TEST_CASE("The escapes of a pattern are expanded, and names cannot leave the directory") {
  char result[256];
  REQUIRE(expand_pattern("a.%e.%p.%t.%%.%x%", "../e/vil", 42, 7'999'999'999, result, sizeof result));
  CHECK(std::string(result) == "a._._e_vil.42.7.%.%x%");
  char small[4];
  CHECK_FALSE(expand_pattern("%e", "longer", 1, 0, small, sizeof small));
}

TEST_CASE("The trace is private, its directories are created, and no file is overwritten") {
  Folder folder;
  const std::string wanted = folder / "new/deep/t.heapprof";
  TraceStorage first, second;
  REQUIRE(first.create(wanted.c_str(), "p", 0, 0) == nullptr);
  first.publish_header();
  CHECK(first.path() == wanted);
  CHECK((std::filesystem::status(wanted).permissions() & std::filesystem::perms::all) ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  REQUIRE(second.create(wanted.c_str(), "p", 0, 0) == nullptr);
  CHECK(second.path() == wanted + ".1");

  std::filesystem::create_symlink(folder / "victim", folder / "link.heapprof");
  TraceStorage third;
  REQUIRE(third.create((folder / "link.heapprof").c_str(), "p", 0, 0) == nullptr);
  CHECK(third.path() == folder / "link.heapprof.1");
  CHECK_FALSE(std::filesystem::exists(folder / "victim"));

  FileHeader header;
  std::memcpy(&header, bytes_of(wanted).data(), sizeof header);
  CHECK(std::memcmp(header.magic, kFileMagic, sizeof kFileMagic) == 0);
  CHECK(header.checksum == checksum(&header, offsetof(FileHeader, checksum)));
}

TEST_CASE("RLIMIT_FSIZE stops the trace without a signal") {
  Folder folder;
  TraceStorage file;
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

/// Limits the size of files during its lifetime.
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

/// The files of the open descriptors.
std::vector<std::string> open_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    files.push_back(std::filesystem::read_symlink(entry, gone));
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// A new trace, and the result of extending it by 64 KB.
struct ExtendedTrace {
  ExtendedTrace() { REQUIRE(file.create((folder / "t").c_str(), "p", 0, 0) == nullptr); }
  void extend() { extent = file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure); }
  void check_extended() const {
    CHECK(failure == nullptr);
    REQUIRE(extent != nullptr);
    CHECK(std::filesystem::file_size(folder / "t") == 4096 + 65536);
  }
  void check_failed() const {
    CHECK(extent == nullptr);
    REQUIRE(failure != nullptr);
  }

  Folder folder;
  TraceStorage file;
  Failure failure = nullptr;
  void* extent = nullptr;
};

TEST_CASE("Signals that interrupt the reservation of space do not end the recording") {
  ExtendedTrace trace;
  const std::string blocked_before = blocked_signals();
  std::string blocked_after;
  int interruptions = 0;
  const bool replaced = with_replaced_calls(
      {SYS_fallocate}, [&](SystemCall& call) { return interruptions < 3 ? ++interruptions, -EINTR : call.make(); },
      [&] {
        trace.extend();
        blocked_after = blocked_signals();
      });
  if (!replaced) return;
  trace.check_extended();
  CHECK(interruptions == 3);
  CHECK(blocked_after == blocked_before);
}

TEST_CASE("A reservation that is always interrupted fails; it is not repeated forever") {
  ExtendedTrace trace;
  const bool replaced = with_replaced_calls(
      {SYS_fallocate}, [](SystemCall&) { return -EINTR; }, [&] { trace.extend(); });
  if (!replaced) return;
  trace.check_failed();
}

TEST_CASE(
    "A thread whose system calls are forbidden while it extends the trace has all its signals unblocked afterwards") {
  ExtendedTrace trace;
  bool exceeds_limit = false;
  SECTION("The extension succeeds") {}
  SECTION("The extension exceeds the limit on file sizes") { exceeds_limit = true; }
  const std::string blocked_before = blocked_signals();
  std::string blocked_after;
  bool forbidden = false, pending = false;
  long result = 0;
  const bool replaced = with_replaced_calls(
      {SYS_fallocate},
      [&](SystemCall& call) {
        // Another thread enters seccomp here.
        sys::g_forbidden = 1;
        forbidden = true;
        return result = call.make();
      },
      [&] {
        const FileSizeLimit limit(exceeds_limit ? 4096 + 100 : 4096 + 65536);
        trace.extend();
        sys::g_forbidden = 0;
        blocked_after = blocked_signals();
        sigset_t signals;
        sigpending(&signals);
        pending = sigismember(&signals, SIGXFSZ);
      });
  if (!replaced) return;
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
  sys::BlockedSignals signals(sys::kAllButFaults);
  sys::g_forbidden = 0;
  signals.restore(0);
  const std::string after = blocked_signals();
  pthread_sigmask(SIG_SETMASK, &usual, nullptr);
  CHECK(after == before);
}

TEST_CASE("Without reservation, short and interrupted writes are completed") {
  ExtendedTrace trace;
  int writes = 0;
  const bool replaced = with_replaced_calls(
      {SYS_fallocate, SYS_pwrite64},
      [&](SystemCall& call) -> long {
        if (call.number == SYS_fallocate) return -EOPNOTSUPP;
        if (++writes % 3 == 0) return -EINTR;
        call.arguments[2] = std::min(call.arguments[2], 1000L);
        return call.make();
      },
      [&] { trace.extend(); });
  if (!replaced) return;
  trace.check_extended();
}

TEST_CASE("Without reservation, a write that the size limit truncates is a failure") {
  ExtendedTrace trace;
  const bool replaced = with_replaced_calls(
      {SYS_fallocate}, [](SystemCall&) { return -EOPNOTSUPP; },
      [&] {
        const FileSizeLimit limit(4096 + 65536 - 100);  // inside the last page, which the kernel writes in part
        trace.extend();
      });
  if (!replaced) return;
  trace.check_failed();
  CHECK(std::string(trace.failure).find("ulimit -f") != std::string::npos);
}

TEST_CASE("Without reservation, a write that writes nothing is a failure") {
  ExtendedTrace trace;
  const bool replaced = with_replaced_calls(
      {SYS_fallocate, SYS_pwrite64},
      [](SystemCall& call) -> long { return call.number == SYS_fallocate ? -EOPNOTSUPP : 0; },
      [&] { trace.extend(); });
  if (!replaced) return;
  trace.check_failed();
}

TEST_CASE("Signals that interrupt the opening of the trace do not prevent the recording") {
  Folder folder;
  TraceStorage file;
  int interruptions = 0;
  Failure failure = "not tried";
  const bool replaced = with_replaced_calls(
      {SYS_openat, SYS_statx}, [&](SystemCall& call) { return ++interruptions % 3 != 0 ? -EINTR : call.make(); },
      [&] {
        failure = file.create((folder / "t").c_str(), "p", 0, 0);
        if (failure == nullptr) file.allocate_extent(65536, ExtentKind::kFrames, StreamId{1}, 0, failure);
      });
  if (!replaced) return;
  CHECK(failure == nullptr);
  CHECK(interruptions > 3);
  CHECK(file.path() == folder / "t");
}

TEST_CASE("A trace that cannot be extended at its start leaves neither a file nor a descriptor") {
  Folder folder;
  const std::vector<std::string> before = open_files();
  TraceStorage file;
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

TEST_CASE("A descriptor that the host closed is opened again by path; one that the host reused is not used") {
  Folder folder;
  TraceStorage file;
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
    // If the path does not exist either, the extension fails with a reason, and nothing is written.
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
