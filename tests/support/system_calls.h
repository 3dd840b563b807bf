// Runs code whose system calls get their results from the test, to produce failures that are rare on a test machine:
// an interrupted fallocate, a short write.
//
// A seccomp filter of one thread traps the calls with the given numbers: the handler of SIGSYS calls the test's
// function. The sixth argument marks the handler's own calls, so only calls with at most five arguments can be
// replaced.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <initializer_list>
#include <thread>
#include <vector>

#include "tests/support/skip_case.h"

namespace heapprof::test {

struct SystemCall {
  long number;
  long arguments[5];

  /// Executes the call. Returns the kernel's result; a failure is a negative errno.
  long make() const noexcept;
};

/// Returns the result of a system call: any value, or that of SystemCall::make(). Must not allocate, because it runs
/// during the call.
using SystemCallResult = std::function<long(SystemCall&)>;

namespace detail {

inline constexpr unsigned kOwnCall = 0x4e7a11e5;
inline SystemCallResult* g_result_of = nullptr;

inline void replace_call(int, siginfo_t* info, void* context) {
  const int error = errno;
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto& registers = machine.gregs;
  SystemCall call{info->si_syscall,
                  {static_cast<long>(registers[REG_RDI]), static_cast<long>(registers[REG_RSI]),
                   static_cast<long>(registers[REG_RDX]), static_cast<long>(registers[REG_R10]),
                   static_cast<long>(registers[REG_R8])}};
  registers[REG_RAX] = (*g_result_of)(call);
#else
  SystemCall call{info->si_syscall, {}};
  for (int i = 0; i < 5; ++i) call.arguments[i] = static_cast<long>(machine.regs[i]);
  machine.regs[0] = static_cast<unsigned long>((*g_result_of)(call));
#endif
  errno = error;
}

inline bool filter_calls(std::initializer_list<long> numbers) {
  std::vector<sock_filter> program{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[5])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kOwnCall, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const long number : numbers) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace detail

inline long SystemCall::make() const noexcept {
  const long result = syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
                              static_cast<long>(detail::kOwnCall));
  return result == -1 ? -errno : result;
}

/// Runs `body` in a new thread, in which `result_of` replaces the system calls with these numbers. False, without
/// running `body`: the test case is reported as skipped, because this machine does not support seccomp filters (as in
/// an emulator).
inline bool with_replaced_calls(std::initializer_list<long> numbers, SystemCallResult result_of,
                                const std::function<void()>& body) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_sigaction = detail::replace_call;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, &before);
  detail::g_result_of = &result_of;
  bool filtered = false;
  std::thread([&] {
    filtered = detail::filter_calls(numbers);
    if (filtered) body();
  }).join();
  detail::g_result_of = nullptr;
  sigaction(SIGSYS, &before, nullptr);
  if (!filtered) skip_case("the kernel or container refuses seccomp filters");
  return filtered;
}

}  // namespace heapprof::test
