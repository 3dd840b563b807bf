// Reading through /proc/self/mem, where process_vm_readv is refused.
#include "preload/sys/guarded_read.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdio>
#include <string>

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
