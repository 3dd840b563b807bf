// Loads a plugin with an embedded allocator while another thread is scanning the loader's list. That scan ends only
// when the plugin is in use.
//
// usage: embedded_missed_scan PLUGIN ANOTHER STORAGE
//
// The other thread makes the loader allocate thread-local storage (STORAGE). A seccomp filter, which the recorder
// does not see, stops the thread at its first process_vm_readv until it may continue.
//
// Prints "same" if the plugin's code did not change when ANOTHER was loaded, else "changed".
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/programs/loaded_code.h"

namespace {

std::atomic<bool> g_stopped, g_may_continue;

void stopped(int, siginfo_t*, void* context) {
  g_stopped = true;
  while (!g_may_continue) sched_yield();
  static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
}

bool stop_at_reads() {
  struct sigaction action {};
  action.sa_sigaction = stopped;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSYS, &action, nullptr);
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{sizeof filter / sizeof *filter, filter};
  // libc's prctl, not the recorder's hook.
  void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  auto* const call = reinterpret_cast<int (*)(int, ...)>(dlsym(libc, "prctl"));
  return call(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && call(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  void* const storage = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
  if (storage == nullptr) return 3;
  auto* const use_storage = reinterpret_cast<char* (*)()>(dlsym(storage, "thread_storage"));
  std::atomic<bool> failed = false, scanned = false, done = false;
  // The thread does not end before `done`: at its end the loader frees, and the recorder would scan again.
  std::thread other([&] {
    if (stop_at_reads()) use_storage()[0] = 1;
    failed = !g_stopped;
    scanned = g_stopped = true;
    while (!done) sched_yield();
  });
  while (!g_stopped) sched_yield();
  void* const plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) return 3;
  reinterpret_cast<void (*)(unsigned)>(dlsym(plugin, "embedded_plugin_work"))(10);
  const std::vector<char> before = code_of(plugin);
  g_may_continue = true;
  while (!scanned) sched_yield();
  void* const another = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  done = true;
  other.join();
  if (another == nullptr) return 3;
  if (failed) return 4;
  std::printf("%s\n", before == code_of(plugin) && !before.empty() ? "same" : "changed");
  return 0;
}
