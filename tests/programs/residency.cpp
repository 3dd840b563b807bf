// Maps memory, touches known pages of it, and sets a mark, so that the recorder takes a snapshot of resident pages.
//
// usage: residency [MODE [N]]
//
// Prints a line for each range: NAME ADDRESS PAGES STEP STATE, where every STEP-th page has the state present, zero
// or huge, and the other pages are not resident; STEP 0: no page is.
//
//   pages       the default: ranges of all kinds
//   many N      N mappings of one page, alternately readable and not, all resident
//   forks       a child with other pages sets a mark and ends; then the parent sets one
//   other_user  becomes user 65534, which makes the process not dumpable; sets a mark; a child sets one, too
//   refuses     a seccomp filter, which the recorder does not see, refuses ioctl; then a mark
//   swapped     asks the kernel to swap pages out; STATE is then "present", or "swapped" for the others, as
//               /proc/self/pagemap has it, and STEP is 1
//   ends HOW    touches pages, and ends or executes /bin/true by the function HOW, without exit handlers, or
//               failed_exec: is killed after it could not execute a file
//               children: is killed after children have ended, or executed /bin/true, after fork and vfork
//   closes      closes all descriptors, and then touches 64 MiB
//   vfork_closes  the same in vfork children, which set marks; prints "descriptors BEFORE AFTER", the numbers of the
//               parent's descriptors
//   waits N     touches N MiB, prints "ready", and allocates until its standard input ends
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "preload/heapprof.h"

namespace {

constexpr int kRefused = 3;
constexpr size_t kHuge = size_t{2} << 20;
const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

void* volatile kept;

/// Maps `pages` pages at a multiple of 2 MiB, with pages that are not mapped before and behind.
char* map(size_t pages, int flags, int file = -1) {
  const size_t bytes = pages * kPage;
  char* reserved = static_cast<char*>(
      mmap(nullptr, bytes + 2 * kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (reserved == MAP_FAILED) abort();
  char* const at = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(reserved) + kHuge) & ~(kHuge - 1));
  if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) != at) abort();
  madvise(at, bytes, MADV_NOHUGEPAGE);
  return at;
}

void print(const char* name, const char* at, size_t pages, size_t step, const char* state) {
  printf("%s %p %zu %zu %s\n", name, static_cast<const void*>(at), pages, step, state);
}

void write_every(char* at, size_t pages, size_t step) {
  for (size_t page = 0; page < pages; page += step) at[page * kPage] = 1;
}

void touch_all_kinds() {
  constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS, kShared = MAP_SHARED | MAP_ANONYMOUS;
  char* at = map(2048, kPrivate);
  write_every(at, 2048, 2);
  print("every_second", at, 2048, 2, "present");
  at = map(700, kPrivate);
  write_every(at, 700, 1);
  print("all", at, 700, 1, "present");
  at = map(512, kPrivate);
  print("untouched", at, 512, 0, "present");
  at = map(600, kPrivate);
  for (size_t page = 0; page < 600; page += 3)
    kept = reinterpret_cast<void*>(uintptr_t{static_cast<volatile char*>(at)[page * kPage] != 0});
  print("read_only", at, 600, 3, "zero");
  at = map(1024, kShared);
  write_every(at, 1024, 5);
  print("shared", at, 1024, 5, "present");
  const int file = memfd_create("heapprof-test", 0);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(300 * kPage)) == 0) {
    at = map(300, MAP_PRIVATE, file);
    write_every(at, 300, 7);
    print("file", at, 300, 7, "present");
  }
  at = map(4 * kHuge / kPage, kPrivate);
  if (madvise(at, 4 * kHuge, MADV_HUGEPAGE) == 0) {
    write_every(at, 4 * kHuge / kPage, 1);
    print("huge", at, 4 * kHuge / kPage, 1, "huge");
  }
}

/// Neighbouring mappings with different protection are not merged.
void map_many(size_t count) {
  char* const at = map(count, MAP_PRIVATE | MAP_ANONYMOUS);
  write_every(at, count, 1);
  for (size_t page = 0; page < count; page += 2)
    if (mprotect(at + page * kPage, kPage, PROT_READ) != 0) exit(kRefused);
  print("many", at, count, 1, "present");
}

/// By instruction, because the recorder watches the functions syscall and prctl.
long raw_call(long number, long a, long b, long c) {
#ifdef __x86_64__
  long result;
  asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(0) : "rcx", "r11", "memory");
  return result;
#else
  return number + a + b + c > 0 ? -1 : -2;
#endif
}

void refuse_ioctl() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{sizeof program / sizeof program[0], program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, reinterpret_cast<long>(&filter)) != 0)
    exit(kRefused);
}

/// Runs `body` in a child.
template <typename Body>
void in_child(Body&& body) {
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    body();
    exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(1);
}

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21  // Linux 5.4
#endif

/// Prints a line for each range of pages in one state. The pages differ, so that they cannot be one page of zeros.
void swap_pages_out() {
  constexpr size_t kPages = 6000;
  char* const at = map(kPages, MAP_PRIVATE | MAP_ANONYMOUS);
  for (size_t page = 0; page < kPages; ++page) memcpy(at + page * kPage, &page, sizeof page);
  for (size_t page = 0; page < kPages; ++page)
    if (page < 500 || page % 7 == 0) madvise(at + page * kPage, kPage, MADV_PAGEOUT);
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  static uint64_t entries[kPages];
  if (pread(pagemap, entries, sizeof entries, static_cast<off_t>(reinterpret_cast<uintptr_t>(at) / kPage * 8)) !=
      static_cast<ssize_t>(sizeof entries))
    exit(kRefused);
  close(pagemap);
  bool any = false;
  for (size_t page = 0, first = 0; page < kPages; ++page) {
    const bool swapped = (entries[page] >> 62 & 1) != 0;
    any |= swapped;
    if (page + 1 < kPages && (entries[page + 1] >> 62 & 1) == swapped) continue;
    print("range", at + first * kPage, page + 1 - first, 1, swapped ? "swapped" : "present");
    first = page + 1;
  }
  if (!any) exit(kRefused);
}

char program[] = "/bin/true";
char* program_arguments[] = {program, nullptr};

/// Ends a child that has no trace of its own, or shares this process's memory.
void end_child(bool shares_memory, bool executes) {
  const pid_t child = shares_memory ? vfork() : fork();
  if (child == 0) {
    if (executes) execve(program, program_arguments, environ);
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
}

[[noreturn]] void end(const char* how) {
  const auto is = [how](const char* name) { return strcmp(how, name) == 0; };
  char* const at = map(64, MAP_PRIVATE | MAP_ANONYMOUS);
  print("last", at, 64, 3, "present");
  fflush(stdout);
  kept = malloc(1);
  write_every(at, 64, 3);
  if (is("_exit")) _exit(0);
  if (is("_Exit")) _Exit(0);
  if (is("quick_exit")) quick_exit(0);
  if (is("execve")) execve(program, program_arguments, environ);
  if (is("execv")) execv(program, program_arguments);
  if (is("execvp")) execvp("true", program_arguments);
  if (is("execvpe")) execvpe(program, program_arguments, environ);
  if (is("execl")) execl(program, program, nullptr);
  if (is("execlp")) execlp("true", program, nullptr);
  if (is("execle")) execle(program, program, nullptr, environ);
  if (is("fexecve")) fexecve(open(program, O_RDONLY | O_CLOEXEC), program_arguments, environ);
  if (is("failed_exec")) execv("/nonexistent/true", program_arguments);
  if (is("children")) {
    end_child(false, false);
    end_child(false, true);
    end_child(true, false);
    end_child(true, true);
  }
  raise(SIGKILL);
  abort();
}

void close_descriptors() {
  for (int i = 3; i < 4096; ++i) close(i);
}

/// As programs do that become daemons.
void grow_after_close() {
  close_descriptors();
  heapprof_mark("closed");
  const size_t pages = (size_t{64} << 20) / kPage;
  write_every(map(pages, MAP_PRIVATE | MAP_ANONYMOUS), pages, 1);
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 1000; ++j) free(malloc(100));
    usleep(1000);
  }
}

int count_descriptors() {
  int count = 0;
  for (int i = 0; i < 4096; ++i) count += fcntl(i, F_GETFD) >= 0;
  return count;
}

/// As programs do that start others.
void close_in_child() {
  if (vfork() == 0) {
    close_descriptors();
    heapprof_mark("child");
    _exit(0);
  }
}

void close_in_children() {
  heapprof_mark("before");
  const int before = count_descriptors();
  for (int i = 0; i < 20; ++i) {
    close_in_child();
    usleep(20'000);  // for the budget of snapshots
    heapprof_mark("parent");
  }
  printf("descriptors %d %d\n", before, count_descriptors());
}

/// Allocates, so that the recorder takes samples, until standard input ends.
void wait_for_end_of_input() {
  puts("ready");
  fflush(stdout);
  for (pollfd input{0, POLLIN, 0}; poll(&input, 1, 1) == 0;)
    for (int i = 0; i < 1000; ++i) free(malloc(100));
}

}  // namespace

int main(int argc, char** argv) {
  const char* const mode = argc > 1 ? argv[1] : "pages";
  const size_t number = argc > 2 ? static_cast<size_t>(atol(argv[2])) : 0;
  if (strcmp(mode, "pages") == 0) touch_all_kinds();
  else if (strcmp(mode, "many") == 0) map_many(number);
  else if (strcmp(mode, "refuses") == 0) refuse_ioctl();
  else if (strcmp(mode, "ends") == 0 && argc > 2) end(argv[2]);
  else if (strcmp(mode, "other_user") == 0 && setuid(65534) != 0) return kRefused;
  else if (strcmp(mode, "swapped") == 0) swap_pages_out();
  else if (strcmp(mode, "closes") == 0) grow_after_close();
  else if (strcmp(mode, "vfork_closes") == 0) close_in_children();
  if (strcmp(mode, "forks") == 0 || strcmp(mode, "other_user") == 0) {
    char* const at = map(64, MAP_PRIVATE | MAP_ANONYMOUS);
    write_every(at, 64, 2);
    print("parent", at, 64, 2, "present");
    in_child([&] {
      write_every(at, 64, 1);
      kept = malloc(1);
      heapprof_mark("child");
    });
  }
  if (strcmp(mode, "waits") == 0) {
    const size_t pages = (number << 20) / kPage;
    write_every(map(pages, MAP_PRIVATE | MAP_ANONYMOUS), pages, 1);
    wait_for_end_of_input();
    return 0;
  }
  fflush(stdout);
  heapprof_mark("ready");
  return 0;
}
