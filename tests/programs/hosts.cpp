// What hosts do to themselves, with a recorder inside:
//   hosts chroot FOLDER       hosts setuid UID        hosts capabilities      hosts namespaces
//   hosts strict              hosts filter [TIMES]    hosts filter_refused    hosts no_clock
//   hosts daemon              hosts broken_stderr     hosts full_stderr       hosts coroutines
//   hosts clone               hosts shared_clone      hosts vfork             hosts vfork_first
//   hosts spawn PROGRAM...    hosts loader_lock       hosts deepbind LIBRARY  hosts dlmopen LIBRARY
//   hosts static_tls LIBRARY  hosts fail              hosts work              hosts load THREADS
//   hosts no_vvar             hosts no_clock_fork     hosts exec_filtered PROGRAM...
//
// Each allocates blocks of 777 bytes before and after what it does, frees all but the last kKept, and prints how many
// it made in this process. Exit status 1: something about the host is not as it was.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>

extern char** environ;

namespace {

constexpr size_t kMark = 777;
constexpr int kKept = 10;
void* kept[kKept];
std::atomic<long> made{0};

[[gnu::noinline]] void work(int times) {
  for (int i = 0; i < times; ++i) {
    void*& place = kept[i % kKept];
    void* const old = place;
    place = malloc(kMark);
    ++made;
    free(old);
  }
}

void say(long number) {
  char text[32];
  char* at = text + sizeof text;
  *--at = '\n';
  do *--at = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  (void)!write(1, at, static_cast<size_t>(text + sizeof text - at));
}

int change_root(const char* folder) {
  if (chroot(folder) != 0 || chdir("/") != 0) return 3;
  work(20'000);
  return 0;
}

/// Gives back the kernel's pages of time data (checkpoint tools do, and sandboxes).
int unmap_time_data() {
  FILE* const maps = fopen("/proc/self/maps", "r");
  unsigned long begin = 0, end = 0;
  bool found = false;
  for (char line[512]; !found && fgets(line, sizeof line, maps) != nullptr;)
    found = strstr(line, "[vvar]") != nullptr && sscanf(line, "%lx-%lx", &begin, &end) == 2;
  fclose(maps);
  if (!found) return 3;
  work(10);
  if (munmap(reinterpret_cast<void*>(begin), end - begin) != 0) return 3;
  work(20'000);
  return 0;
}

int become_user(const char* user) {
  const auto id = static_cast<uid_t>(atoi(user));
  if (setgroups(0, nullptr) != 0 || setgid(id) != 0 || setuid(id) != 0) return 3;
  work(20'000);
  return getuid() == id && setuid(0) != 0 ? 0 : 1;
}

int drop_capabilities() {
  for (int capability = 0; capability < 40; ++capability) prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) return 3;
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  work(20'000);
  return 0;
}

int change_namespaces() {
  // Refused to a process with more than one thread: a recorder with a helper thread breaks this.
  if (unshare(CLONE_NEWUSER) != 0) return errno == EINVAL ? 1 : 3;
  if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET) != 0) return 3;
  work(10'000);
  const pid_t child = fork();  // process 1 of the new namespace
  if (child == 0) {
    work(100);
    _exit(getpid() == 1 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  work(10'000);
  return status;
}

/// Kills whoever makes a system call that is not needed for work() and for leaving.
int enter_filter(bool by_number) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 3;
  constexpr unsigned allowed[] = {SYS_write, SYS_exit_group, SYS_brk};
  sock_filter program[2 * sizeof allowed / sizeof *allowed + 2];
  unsigned short count = 0;
  program[count++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const unsigned number : allowed) {
    program[count++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    program[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  program[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  const sock_fprog filter{count, program};
  const long result = by_number ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
                                : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0);
  return result == 0 ? 0 : 3;
}

int enter_strict() {
  say(made + 3000);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) return 3;
  work(3000);
  for (;;) syscall(SYS_exit, 0);  // exit_group is forbidden too
}

/// A filter that the kernel refuses, with an instruction that there is not.
int have_filter_refused() {
  sock_filter program[] = {{0xffff, 0, 0, 0}};
  const sock_fprog filter{1, program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != -1) return 1;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != -1) return 1;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, nullptr) != -1) return 1;
  work(200'000);
  return 0;
}

int become_daemon() {
  const pid_t first = fork();
  if (first != 0) {
    int status = 1;
    waitpid(first, &status, 0);
    work(1000);
    return status;
  }
  setsid();
  if (fork() != 0) _exit(0);
  const int nothing = open("/dev/null", O_RDWR);
  for (int i = 0; i < 3; ++i) dup2(nothing, i);
  if (chdir("/") != 0) _exit(1);
  for (int i = 3; i < 4096; ++i) close(i);
  work(20'000);
  exit(0);
}

/// Standard error is a pipe that nobody reads any more, or that is full: what the recorder says must not end or stop
/// the host. HEAPPROF_MAX_FILE_SIZE makes it say something.
int bad_standard_error(bool full) {
  int ends[2];
  if (pipe(ends) != 0) return 3;
  dup2(ends[1], 2);
  if (full) {
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    char noise[4096] = {};
    while (write(ends[1], noise, sizeof noise) > 0 || write(ends[1], noise, 1) > 0) {}
    fcntl(ends[1], F_SETFL, 0);
  } else {
    close(ends[0]);
  }
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "hosts", "work", static_cast<char*>(nullptr));
    _exit(9);
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0 ? 0 : 1;
}

// Coroutines
// -----------------------------------------------------------------------------------------------------------

constexpr size_t kCoroutineStack = 16 << 10;
ucontext_t main_context, coroutine_context;

[[gnu::noinline]] void nest(int depth) {
  if (depth == 0) work(3);
  else nest(depth - 1);
  asm volatile("" ::: "memory");
}

void coroutine() {
  for (int i = 0;; ++i) {
    nest(i % 30);
    swapcontext(&coroutine_context, &main_context);
  }
}

/// Each on a stack of its own of 16 KB between closed pages, the first events of a thread too.
void* run_coroutines(void*) {
  for (int i = 0; i < 200; ++i) {
    auto* area =
        static_cast<char*>(mmap(nullptr, kCoroutineStack + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(area + 4096, kCoroutineStack, PROT_READ | PROT_WRITE);
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = area + 4096;
    coroutine_context.uc_stack.ss_size = kCoroutineStack;
    makecontext(&coroutine_context, coroutine, 0);
    for (int k = 0; k < 30; ++k) swapcontext(&main_context, &coroutine_context);
    munmap(area, kCoroutineStack + 8192);
  }
  return nullptr;
}

int coroutines() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, run_coroutines, nullptr) != 0) return 1;
  pthread_join(thread, nullptr);
  return 0;
}

/// Thread-less processes that share memory, made without libc.
int raw_clone() {
  for (int i = 0; i < 50; ++i) {
    const long child = syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) {
      for (int k = 0; k < 500; ++k) free(malloc(66));
      _exit(0);
    }
    work(100);
    int status = 1;
    if (child < 0 || waitpid(static_cast<pid_t>(child), &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

int allocating_child(void*) {
  work(500);
  return 0;
}

int clone_sharing_memory() {
  static char stack[256 << 10];
  for (int i = 0; i < 50; ++i) {
    const int child = clone(allocating_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, nullptr);
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    work(100);
  }
  return 0;
}

/// The child works on its parent's heap: what it leaves there is the parent's to free.
[[gnu::noinline]] int vfork_once(int times) {
  const pid_t child = vfork();
  if (child == 0) {
    work(times);
    _exit(0);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child ? status : 1;
}

int allocate_in_vfork() {
  for (int i = 0; i < 50; ++i) {
    if (vfork_once(200) != 0) return 1;
    work(100);
  }
  return 0;
}

void* vfork_before_all_else(void* blocks) {
  const pid_t child = vfork();
  if (child == 0) {
    for (int i = 0; i < 20; ++i) static_cast<void**>(blocks)[i] = malloc(kMark);
    _exit(0);
  }
  made += 20;
  int status = 1;
  waitpid(child, &status, 0);
  usleep(2'000);  // others start meanwhile
  for (int i = 0; i < 20'000; ++i) free(malloc(kMark)), ++made;
  for (int i = 0; i < 20; ++i) free(static_cast<void**>(blocks)[i]);
  return nullptr;
}

/// Without rest, until SIGTERM; says how many pairs were made in every 100 ms.
int full_load(int count) {
  static std::atomic<long> pairs[8];
  static std::atomic<bool> ended{false};
  signal(SIGTERM, [](int) { ended = true; });
  static pthread_t threads[8];
  for (int i = 0; i < count; ++i)
    pthread_create(&threads[i], nullptr, [](void* counter) -> void* {
      void* blocks[64] = {};
      auto& mine = *static_cast<std::atomic<long>*>(counter);
      for (unsigned k = 0; !ended; ++k) {
        void*& block = blocks[k * 7 % 64];
        free(block);
        block = malloc(16 + k % 500);
        for (volatile int spin = 0; spin < 2000; spin = spin + 1) {
        }  // work of its own, or the trace grows by a gigabyte in 10 s
        mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      }
      for (void* block : blocks) free(block);
      return nullptr;
    }, &pairs[i]);
  long before = 0;
  while (!ended) {
    usleep(100'000);
    long now = 0;
    for (int i = 0; i < count; ++i) now += pairs[i].load();
    say(now - before);
    before = now;
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
  return 0;
}

std::atomic<bool> stop{false};
void* pairs_until_stopped(void*) {
  while (!stop) {
    void* volatile block = malloc(kMark);
    ++made;
    free(block);
  }
  return nullptr;
}
void* some_pairs(void*) {
  for (int i = 0; i < 500; ++i) {
    void* volatile block = malloc(kMark);
    ++made;
    free(block);
  }
  return nullptr;
}

/// Threads whose first act is a vfork, among threads that allocate and end.
int vfork_first_of_all() {
  static void* blocks[8][20];
  pthread_t busy, first[8];
  pthread_create(&busy, nullptr, pairs_until_stopped, nullptr);
  for (int i = 0; i < 8; ++i) pthread_create(&first[i], nullptr, vfork_before_all_else, blocks[i]);
  for (int i = 0; i < 60; ++i) {
    pthread_t others[4];
    for (pthread_t& other : others) pthread_create(&other, nullptr, some_pairs, nullptr);
    for (pthread_t other : others) pthread_join(other, nullptr);
  }
  for (pthread_t thread : first) pthread_join(thread, nullptr);
  stop = true;
  pthread_join(busy, nullptr);
  return 0;
}

/// A child executes `command` under a filter that kills whoever calls process_vm_readv.
int execute_under_filter(char** command) {
  const pid_t child = fork();
  if (child == 0) {
    sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0)
      _exit(3);
    dup2(open("/dev/null", O_WRONLY), 1);
    execv(command[0], command);
    _exit(4);
  }
  int status = 1;
  waitpid(child, &status, 0);
  work(2000);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  return 1;
}

int spawn(char** command) {
  for (int i = 0; i < 20; ++i) {
    pid_t child;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (posix_spawn(&child, command[0], &actions, nullptr, command, environ) != 0) return 1;
    posix_spawn_file_actions_destroy(&actions);
    work(100);
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  return 0;
}

// A lock of the host's own inside and around the loader's
// -------------------------------------------------------------------

pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;

int hold_own_lock(dl_phdr_info*, size_t, void*) {
  pthread_mutex_lock(&own_lock);  // the loader's lock is held around this
  usleep(50);
  pthread_mutex_unlock(&own_lock);
  return 1;
}

/// Enough new stacks, that the recorder has to look objects up.
[[gnu::noinline]] void allocate_deep(int depth) {
  if (depth == 0) work(2);
  else allocate_deep(depth - 1);
  asm volatile("" ::: "memory");
}

void* allocate_under_own_lock(void*) {
  for (int i = 0; !stop; ++i) {
    pthread_mutex_lock(&own_lock);
    allocate_deep(i % 200);
    pthread_mutex_unlock(&own_lock);
  }
  return nullptr;
}

int loader_lock() {
  pthread_t thread;
  pthread_create(&thread, nullptr, allocate_under_own_lock, nullptr);
  for (int i = 0; i < 300; ++i) dl_iterate_phdr(hold_own_lock, nullptr);
  stop = true;
  pthread_join(thread, nullptr);
  return 0;
}

/// `library`: exports make_block(size) and drop_block(block), its own malloc and free.
int use_library(void* library) {
  if (library == nullptr) return fprintf(stderr, "%s\n", dlerror()), 3;
  const auto make = reinterpret_cast<void* (*)(size_t)>(dlsym(library, "make_block"));
  const auto drop = reinterpret_cast<void (*)(void*)>(dlsym(library, "drop_block"));
  if (make == nullptr || drop == nullptr) return 3;
  for (int i = 0; i < 1000; ++i) {
    void* const block = make(555);
    memset(block, 1, 555);
    work(3);
    drop(block);
  }
  return 0;
}

/// A child has no clock either.
int fork_without_clock() {
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 3;
  const pid_t child = fork();
  if (child == 0) {
    work(2000);
    syscall(SYS_exit_group, 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  work(2000);
  prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
  return status;
}

/// What cannot be had fails once, whatever the allocator is made of.
int fail() {
  void* block = malloc(kMark);
  ++made;
  const size_t huge = ~size_t{0} / 2;
  if (realloc(block, huge) != nullptr || memalign(16, huge) != nullptr || malloc(huge) != nullptr) return 1;
  void* aligned = nullptr;
  if (posix_memalign(&aligned, 3, 100) != EINVAL) return 1;  // no failure of the heap's
  free(block);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const what = argc > 1 ? argv[1] : "";
  const char* const argument = argc > 2 ? argv[2] : "";
  const auto is = [what](const char* name) { return strcmp(what, name) == 0; };
  work(1000);
  int result = 2;
  if (is("work")) work(200'000), result = 0;
  if (is("chroot")) result = change_root(argument);
  if (is("no_vvar")) result = unmap_time_data();
  if (is("setuid")) result = become_user(argument);
  if (is("capabilities")) result = drop_capabilities();
  if (is("namespaces")) result = change_namespaces();
  if (is("strict")) result = enter_strict();
  if (is("filter") || is("filter_by_number")) {
    result = enter_filter(is("filter_by_number"));
    if (result == 0) {
      work(argc > 2 ? atoi(argument) : 3000);
      say(made);
      syscall(SYS_exit_group, 0);
    }
  }
  if (is("filter_refused")) result = have_filter_refused();
  if (is("no_clock")) {
    result = prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0 ? 0 : 3;
    work(2000);
    prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
  }
  if (is("no_clock_fork")) result = fork_without_clock();
  if (is("daemon")) result = become_daemon();
  if (is("broken_stderr")) result = bad_standard_error(false);
  if (is("full_stderr")) result = bad_standard_error(true);
  if (is("coroutines")) result = coroutines();
  if (is("clone")) result = raw_clone();
  if (is("shared_clone")) result = clone_sharing_memory();
  if (is("vfork")) result = allocate_in_vfork();
  if (is("vfork_first")) result = vfork_first_of_all();
  if (is("spawn")) result = spawn(argv + 2);
  if (is("exec_filtered")) result = execute_under_filter(argv + 2);
  if (is("loader_lock")) result = loader_lock();
  if (is("deepbind")) result = use_library(dlopen(argument, RTLD_NOW | RTLD_DEEPBIND));
  if (is("dlmopen")) result = use_library(dlmopen(LM_ID_NEWLM, argument, RTLD_NOW));
  if (is("static_tls")) result = use_library(dlopen(argument, RTLD_NOW));
  if (is("fail")) result = fail();
  if (is("load")) return full_load(atoi(argument));
  say(made);
  return result;
}
