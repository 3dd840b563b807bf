// Hosts that change their own process, with or without a recorder.
//
// usage:
//   hosts chroot DIRECTORY    hosts setuid UID        hosts capabilities      hosts namespaces
//   hosts strict              hosts filter [TIMES]    hosts filter_refused    hosts no_clock
//   hosts daemon              hosts broken_stderr     hosts full_stderr       hosts coroutines
//   hosts clone               hosts shared_clone      hosts vfork             hosts vfork_first
//   hosts spawn PROGRAM...    hosts loader_lock       hosts deepbind LIBRARY  hosts dlmopen LIBRARY
//   hosts static_tls LIBRARY  hosts fail              hosts work              hosts load THREADS
//   hosts no_vvar             hosts no_clock_fork     hosts exec_filtered PROGRAM...
//   hosts covered_vvar        hosts synchronized      hosts closed_stderr FILE   hosts huge_pages BYTES
//   hosts exec_allowed NAME,NAME... PROGRAM...              hosts vfork_exit
//
// Each mode allocates blocks of 777 bytes before and after its change, frees all but the last kKept, and prints how
// many this process allocated. Exit status 1: the host was affected. 3: the kernel does not permit the change.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <linux/capability.h>
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

constexpr size_t kCountedSize = 777;
constexpr int kKept = 10;
void* kept[kKept];
std::atomic<long> allocated{0};
std::atomic<bool> stop{false};

[[gnu::noinline]] void work(int times) {
  for (int i = 0; i < times; ++i) {
    void*& slot = kept[i % kKept];
    void* const old = slot;
    slot = malloc(kCountedSize);
    ++allocated;
    free(old);
  }
}

void print(long number) {
  char text[32];
  char* at = text + sizeof text;
  *--at = '\n';
  do *--at = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  (void)!write(1, at, static_cast<size_t>(text + sizeof text - at));
}

int change_root(const char* directory) {
  if (chroot(directory) != 0 || chdir("/") != 0) return 3;
  work(20'000);
  return 0;
}

/// Unmaps the kernel's pages of time data, as checkpoint tools and sandboxes do, or moves pages over them that cannot
/// be read.
int remove_time_data(bool cover) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  unsigned long begin = 0, end = 0;
  bool found = false;
  for (char line[512]; !found && fgets(line, sizeof line, maps) != nullptr;)
    found = strstr(line, "[vvar]") != nullptr && sscanf(line, "%lx-%lx", &begin, &end) == 2;
  fclose(maps);
  if (!found) return 3;
  void* const pages = mmap(nullptr, end - begin, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* const place = reinterpret_cast<void*>(begin);
  work(10);
  if (cover) {
    if (mremap(pages, end - begin, end - begin, MREMAP_MAYMOVE | MREMAP_FIXED, place) != place) return 3;
  } else if (munmap(place, end - begin) != 0) {
    return 3;
  }
  work(20'000);
  return 0;
}

/// Maps and unmaps one huge page of `bytes`, which the kernel makes of one byte.
[[gnu::noinline]] int map_huge_page(std::size_t bytes) {
  void* const page =
      mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
  if (page == MAP_FAILED) return 3;
  return munmap(page, bytes) == 0 ? 0 : 1;
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
  // The kernel refuses this to a process with several threads: the recorder must not have a helper thread.
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

/// Installs a filter that kills the process at system calls that work() and the exit do not need.
int enter_filter(bool by_number) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 3;
  constexpr unsigned kAllowed[] = {SYS_write,  SYS_exit_group,
                                   SYS_brk,
#ifndef __GLIBC__  // musl's malloc maps and unmaps small groups of blocks
                                   SYS_mmap,   SYS_munmap,
                                   SYS_madvise
#endif
  };
  sock_filter program[2 * sizeof kAllowed / sizeof *kAllowed + 2];
  unsigned short count = 0;
  program[count++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const unsigned number : kAllowed) {
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
  print(allocated + 3000);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) != 0) return 3;
  work(3000);
  for (;;) syscall(SYS_exit, 0);  // exit_group is forbidden too
}

/// Installs filters that the kernel refuses, because of an invalid instruction or flag.
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

/// seccomp without the function of libc, so that the recorder does not know of it.
long raw_seccomp(long operation, long flags, const sock_fprog* filter) {
#if defined(__x86_64__)
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(SYS_seccomp), "D"(operation), "S"(flags), "d"(filter)
               : "rcx", "r11", "memory");
  return result;
#else
  register long number asm("x8") = SYS_seccomp;
  register long first asm("x0") = operation;
  register long second asm("x1") = flags;
  register const sock_fprog* third asm("x2") = filter;
  asm volatile("svc 0" : "+r"(first) : "r"(number), "r"(second), "r"(third) : "memory");
  return first;
#endif
}

sock_filter allow_everything[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
const sock_fprog permissive_filter{1, allow_everything};
std::atomic<int> filtered{0};

void* have_own_filter(void*) {
  filtered = raw_seccomp(SECCOMP_SET_MODE_FILTER, 0, &permissive_filter) == 0 ? 1 : 2;
  while (!stop) usleep(1000);
  return nullptr;
}

void* work_in_thread(void*) {
  work(1000);
  return nullptr;
}

/// The kernel refuses a filter for all threads, because one of them has another filter: the result is its id. Threads
/// that begin later are recorded.
int fail_to_synchronize_filters() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  pthread_t other;
  pthread_create(&other, nullptr, have_own_filter, nullptr);
  while (filtered == 0) usleep(1000);
  const long result =
      filtered == 1 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &permissive_filter)
                    : 0;
  pthread_t later;
  if (result > 0 && pthread_create(&later, nullptr, work_in_thread, nullptr) == 0) pthread_join(later, nullptr);
  stop = true;
  pthread_join(other, nullptr);
  return result > 0 ? 0 : 3;
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

/// Standard error is a closed or full pipe: a message of the recorder must neither kill nor block the host.
/// HEAPPROF_MAX_FILE_SIZE makes the recorder print one.
int bad_standard_error(bool full) {
  int ends[2];
  if (pipe(ends) != 0) return 3;
  dup2(ends[1], 2);
  if (full) {
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    char noise[4096] = {};
    while (write(ends[1], noise, sizeof noise) > 0 || write(ends[1], noise, 1) > 0) {
    }
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

/// Is executed again with a closed standard error. The file that it opens then has that descriptor.
int close_standard_error(const char* file) {
  if (fcntl(2, F_GETFD) != -1) {
    close(2);
    execl("/proc/self/exe", "hosts", "closed_stderr", file, static_cast<char*>(nullptr));
    return 3;
  }
  if (open(file, O_WRONLY | O_CREAT, 0600) != 2) return 1;
  work(200'000);
  return 0;
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

/// Runs coroutines on stacks of 16 KB between guard pages; they have the thread's first events too.
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

/// Creates processes with the clone system call, without libc.
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

/// The child shares its parent's heap: the parent frees the blocks that the child leaves.
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

/// The child calls exit() instead of _exit(), as after an exec that failed. It runs its parent's exit handlers.
[[gnu::noinline]] int exit_in_vfork() {
  const pid_t child = vfork();
  if (child == 0) exit(0);
  int status = 1;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
  work(1000);
  return 0;
}

void* vfork_first(void* blocks) {
  const pid_t child = vfork();
  if (child == 0) {
    for (int i = 0; i < 20; ++i) static_cast<void**>(blocks)[i] = malloc(kCountedSize);
    _exit(0);
  }
  allocated += 20;
  int status = 1;
  waitpid(child, &status, 0);
  usleep(2'000);  // the others start meanwhile
  for (int i = 0; i < 20'000; ++i) free(malloc(kCountedSize)), ++allocated;
  for (int i = 0; i < 20; ++i) free(static_cast<void**>(blocks)[i]);
  return nullptr;
}

/// Allocates and frees without pause until SIGTERM. Prints the number of pairs in every 100 ms.
int full_load(int count) {
  static std::atomic<long> pairs[8];
  static std::atomic<bool> ended{false};
  signal(SIGTERM, [](int) { ended = true; });
  static pthread_t threads[8];
  for (int i = 0; i < count; ++i)
    pthread_create(
        &threads[i], nullptr,
        [](void* counter) -> void* {
          void* blocks[64] = {};
          auto& mine = *static_cast<std::atomic<long>*>(counter);
          for (unsigned k = 0; !ended; ++k) {
            void*& block = blocks[k * 7 % 64];
            free(block);
            block = malloc(16 + k % 500);
            for (volatile int spin = 0; spin < 2000; spin = spin + 1) {
            }  // other work; without it the trace grows by a gigabyte in 10 s
            mine.store(mine.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
          }
          for (void* block : blocks) free(block);
          return nullptr;
        },
        &pairs[i]);
  long before = 0;
  while (!ended) {
    usleep(100'000);
    long now = 0;
    for (int i = 0; i < count; ++i) now += pairs[i].load();
    print(now - before);
    before = now;
  }
  for (int i = 0; i < count; ++i) pthread_join(threads[i], nullptr);
  return 0;
}

void* pairs_until_stopped(void*) {
  while (!stop) {
    void* volatile block = malloc(kCountedSize);
    ++allocated;
    free(block);
  }
  return nullptr;
}
void* some_pairs(void*) {
  for (int i = 0; i < 500; ++i) {
    void* volatile block = malloc(kCountedSize);
    ++allocated;
    free(block);
  }
  return nullptr;
}

/// Threads whose first call is vfork, beside threads that allocate and end.
int vfork_first_in_threads() {
  static void* blocks[8][20];
  pthread_t busy, first[8];
  pthread_create(&busy, nullptr, pairs_until_stopped, nullptr);
  for (int i = 0; i < 8; ++i) pthread_create(&first[i], nullptr, vfork_first, blocks[i]);
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

/// A child executes `command` with a filter that kills a process that calls process_vm_readv.
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

struct NamedCall {
  const char* name;
  unsigned number;
};
#define CALL(name) \
  { #name, SYS_##name }
constexpr NamedCall kCalls[] = {
    CALL(brk),
    CALL(capget),
    CALL(capset),
    CALL(clock_gettime),
    CALL(clock_nanosleep),
    CALL(clone),
    CALL(close),
    CALL(execve),
    CALL(exit),
    CALL(exit_group),
    CALL(faccessat),
    CALL(fallocate),
    CALL(fcntl),
    CALL(fstat),
    CALL(fstatfs),
    CALL(futex),
    CALL(getcwd),
    CALL(getpid),
    CALL(getppid),
    CALL(getrandom),
    CALL(gettid),
    CALL(ioctl),
    CALL(madvise),
    CALL(mincore),
    CALL(mkdirat),
    CALL(mmap),
    CALL(mprotect),
    CALL(mremap),
    CALL(munmap),
    CALL(nanosleep),
    CALL(newfstatat),
    CALL(openat),
    CALL(ppoll),
    CALL(prctl),
    CALL(pread64),
    CALL(prlimit64),
    CALL(process_vm_readv),
    CALL(pwrite64),
    CALL(read),
    CALL(readlinkat),
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigtimedwait),
    CALL(sched_getaffinity),
    CALL(sched_yield),
    CALL(set_robust_list),
    CALL(set_tid_address),
    CALL(sigaltstack),
    CALL(statx),
    CALL(tkill),
    CALL(unlinkat),
    CALL(write),
#ifdef SYS_clone3
    CALL(clone3),
#endif
#ifdef SYS_rseq
    CALL(rseq),
#endif
#ifdef SYS_arch_prctl  // x86-64
    CALL(access),
    CALL(arch_prctl),
    CALL(readlink),
#endif
};
#undef CALL

/// `names`: separated by commas.
bool is_listed(const char* names, const char* name) {
  const size_t length = strlen(name);
  for (const char* at = names; (at = strstr(at, name)) != nullptr; at += length)
    if ((at == names || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return true;
  return false;
}

/// Executes `command` in this process, with a filter that kills it at any system call but those with the given names.
int execute_with(const char* names, char** command) {
  static sock_filter program[2 * sizeof kCalls / sizeof *kCalls + 2];
  unsigned short count = 0;
  program[count++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const NamedCall& call : kCalls) {
    if (!is_listed(names, call.name)) continue;
    program[count++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call.number, 0, 1);
    program[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  program[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  const sock_fprog filter{count, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0) != 0)
    return 3;
  execv(command[0], command);
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

// A lock of the host, acquired inside the loader's lock and around it
// -------------------------------------------------------------------

pthread_mutex_t host_lock = PTHREAD_MUTEX_INITIALIZER;

int take_host_lock(dl_phdr_info*, size_t, void*) {
  pthread_mutex_lock(&host_lock);  // the loader's lock is held around this
  usleep(50);
  pthread_mutex_unlock(&host_lock);
  return 1;
}

/// Each depth is a new stack, for which the recorder looks up loaded objects.
[[gnu::noinline]] void allocate_deep(int depth) {
  if (depth == 0) work(2);
  else allocate_deep(depth - 1);
  asm volatile("" ::: "memory");
}

void* allocate_under_host_lock(void*) {
  for (int i = 0; !stop; ++i) {
    pthread_mutex_lock(&host_lock);
    allocate_deep(i % 200);
    pthread_mutex_unlock(&host_lock);
  }
  return nullptr;
}

int nest_locks() {
  pthread_t thread;
  pthread_create(&thread, nullptr, allocate_under_host_lock, nullptr);
  for (int i = 0; i < 300; ++i) dl_iterate_phdr(take_host_lock, nullptr);
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

/// A child cannot read the cycle counter either.
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

/// Each failed call must count once, also if the allocator calls other hooks.
int fail() {
  void* block = malloc(kCountedSize);
  ++allocated;
  const size_t huge = ~size_t{0} / 2;
  if (realloc(block, huge) != nullptr || memalign(16, huge) != nullptr || malloc(huge) != nullptr) return 1;
  void* aligned = nullptr;
  if (posix_memalign(&aligned, 3, 100) != EINVAL) return 1;  // an invalid argument, which does not count as failed
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
  if (is("no_vvar") || is("covered_vvar")) result = remove_time_data(is("covered_vvar"));
  if (is("synchronized")) result = fail_to_synchronize_filters();
  if (is("huge_pages")) result = map_huge_page(strtoul(argument, nullptr, 10));
  if (is("closed_stderr")) result = close_standard_error(argument);
  if (is("setuid")) result = become_user(argument);
  if (is("capabilities")) result = drop_capabilities();
  if (is("namespaces")) result = change_namespaces();
  if (is("strict")) result = enter_strict();
  if (is("filter") || is("filter_by_number")) {
    result = enter_filter(is("filter_by_number"));
    if (result == 0) {
      work(argc > 2 ? atoi(argument) : 3000);
      print(allocated);
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
  if (is("vfork_first")) result = vfork_first_in_threads();
  if (is("vfork_exit")) result = exit_in_vfork();
  if (is("spawn")) result = spawn(argv + 2);
  if (is("exec_filtered")) result = execute_under_filter(argv + 2);
  if (is("exec_allowed")) return execute_with(argument, argv + 3);
  if (is("loader_lock")) result = nest_locks();
  if (is("deepbind")) result = use_library(dlopen(argument, RTLD_NOW | RTLD_DEEPBIND));
  if (is("dlmopen")) result = use_library(dlmopen(LM_ID_NEWLM, argument, RTLD_NOW));
  if (is("static_tls")) result = use_library(dlopen(argument, RTLD_NOW));
  if (is("fail")) result = fail();
  if (is("load")) return full_load(atoi(argument));
  print(allocated);
  return result;
}
