// Reading through /proc/self/mem, where process_vm_readv is refused, and without a call, where memory stays mapped.
#include "preload/sys/guarded_read.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "tests/support/skip_case.h"

using namespace heapprof;

namespace {

/// Runs `body` in a child in which process_vm_readv fails. Returns what `body` returns; -1: the child was killed.
template <typename Body>
int in_child_without_process_vm_readv(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
      _exit(99);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kHighest = 2048;

/// The lowest descriptor of this process's memory; -1: there is none.
int memory_descriptor() {
  for (int fd = 0; fd < kHighest; ++fd) {
    char path[32], target[64] = {};
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (readlink(path, target, sizeof target - 1) > 4 && std::string(target).ends_with("/mem")) return fd;
  }
  return -1;
}

const int g_value = 42;

}  // namespace

TEST_CASE("the descriptor of /proc/self/mem has a high number and is closed at the end") {
  CHECK(in_child_without_process_vm_readv([] {
          sys::GuardedReader reader;
          int value = 0;
          if (!reader.read(&g_value, value) || value != g_value) return 1;
          const int fd = memory_descriptor();
          if (fd < 100) return 2;
          reader.close();
          return memory_descriptor() == -1 ? 0 : 3;
        }) == 0);
}

TEST_CASE("if the host reused the number of the descriptor, it is neither read nor closed") {
  CHECK(in_child_without_process_vm_readv([] {
          sys::GuardedReader reader;
          int value = 0;
          if (!reader.read(&g_value, value)) return 1;
          const int fd = memory_descriptor();
          const int zeros = open("/dev/zero", O_RDONLY);
          if (fd < 0 || zeros < 0 || dup2(zeros, fd) != fd) return 2;
          if (reader.read(&g_value, value)) return 3;
          reader.close();
          return fcntl(fd, F_GETFD) >= 0 ? 0 : 4;
        }) == 0);
}

TEST_CASE("private memory is read without the calls that copy memory") {
  constexpr int kOlderKernel = 77;
  const int result = in_child_without_process_vm_readv([] {
    sys::GuardedReader reader;
    reader.read_directly();
    int value = 0;
    if (!reader.read(&g_value, value) || value != g_value) return 1;
    if (memory_descriptor() != -1) return kOlderKernel;
    char text[16];
    if (!reader.read_string("a text", text, sizeof text) || std::string(text) != "a text") return 2;
    if (reader.read_string("a text", text, 6)) return 3;
    if (memory_descriptor() != -1) return 4;
    reader.close();
    if (!reader.read(&g_value, value) || memory_descriptor() == -1) return 5;
    reader.close();
    return 0;
  });
  if (result == kOlderKernel) return test::skip_case("the kernel has no PROCMAP_QUERY (Linux 6.11)");
  CHECK(result == 0);
}

TEST_CASE("memory that may go away, or cannot be read, is not read directly") {
  constexpr std::size_t kPage = 4096;
  sys::GuardedReader reader;
  reader.read_directly();
  int value = 0;
  REQUIRE(reader.read(&g_value, value));

  // A page of a file that was truncated: the program would be killed by SIGBUS.
  const int file = memfd_create("guarded-read", MFD_CLOEXEC);
  REQUIRE((file >= 0 && ftruncate(file, kPage) == 0));
  auto* const shared = static_cast<int*>(mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file, 0));
  REQUIRE(shared != MAP_FAILED);
  REQUIRE(ftruncate(file, 0) == 0);
  CHECK_FALSE(reader.read(shared, value));

  auto* const pages =
      static_cast<char*>(mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(mprotect(pages + 2 * kPage, kPage, PROT_NONE) == 0);
  char bytes[16];
  std::memset(pages, 'x', 2 * kPage);
  CHECK(reader.read(pages + 2 * kPage - sizeof bytes, bytes, sizeof bytes));
  CHECK(bytes[15] == 'x');
  CHECK_FALSE(reader.read(pages + 2 * kPage - 8, bytes, sizeof bytes));
  CHECK_FALSE(reader.read(pages + 2 * kPage, bytes, sizeof bytes));
  CHECK_FALSE(reader.read_string(pages + 2 * kPage - 8, bytes, sizeof bytes));
  // A string on two pages, which ends there
  std::memcpy(pages + kPage - 5, "two pages", sizeof "two pages");
  CHECK(reader.read_string(pages + kPage - 5, bytes, sizeof bytes));
  CHECK(std::string(bytes) == "two pages");
  munmap(pages, 3 * kPage);
  reader.close();
  CHECK_FALSE(reader.read(pages, bytes, sizeof bytes));
  munmap(shared, kPage);
  close(file);
}
