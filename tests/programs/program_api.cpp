// Calls the functions of heapprof.h, with or without a recorder. Prints the results of heapprof_is_recording: at the
// start, as the first act of a forked child, in a pause, and after it.
//
// Allocates five blocks of 1111 bytes, and during a pause five of 2222 bytes; frees three of each. A pool reports
// blocks of 3333 bytes.
//
// With the argument "children": forks a child in a pause, which allocates five blocks of 1111 bytes, resumes and
// allocates five of 2222 bytes, and after the pause one that allocates five of 3333 bytes. Prints the ids of the two.
//
// With the argument "paused-steps" (x86-64): forks a child in a pause, which allocates a block. Prints at how many
// instructions of this, its first event, heapprof_is_recording() is not 0.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "preload/heapprof.h"

namespace {
void* volatile kept;

[[gnu::noinline]] void allocate(size_t size, void** blocks) {
  for (int i = 0; i < 5; ++i) kept = blocks[i] = malloc(size);
}
[[gnu::noinline]] void free_three(void** blocks) {
  for (int i = 0; i < 3; ++i) free(blocks[i]);
}
alignas(16) char pool[10'000];

[[gnu::noinline]] void use_pool() {
  heapprof_report_alloc(pool, 3333);
  heapprof_report_alloc(pool + 3344, 3333);
  heapprof_report_free(pool);
}

/// The result of heapprof_is_recording in a forked child, before it allocates.
int is_recording_in_child() {
  const pid_t child = fork();
  if (child == 0) _exit(heapprof_is_recording());
  int status = -1;
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

/// Forks a child that calls `body`. Returns its process id after it has ended.
pid_t run_child(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return child;
}

void resume_in_child() {
  void* blocks[5];
  allocate(1111, blocks);
  heapprof_resume();
  allocate(2222, blocks);
}

void allocate_in_child() {
  void* blocks[5];
  allocate(3333, blocks);
}

int run_children() {
  heapprof_pause();
  const pid_t paused = run_child(resume_in_child);
  heapprof_resume();
  const pid_t recorded = run_child(allocate_in_child);
  printf("%d %d\n", paused, recorded);
  return 0;
}

#ifdef __x86_64__
volatile sig_atomic_t stepping = 0;
volatile int recording_steps = 0;

/// Handles SIGTRAP, which the trap flag raises after each instruction.
void step(int, siginfo_t*, void* context) {
  constexpr greg_t kTrapFlag = 1 << 8;
  greg_t& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
  flags = stepping != 0 ? flags | kTrapFlag : flags & ~kTrapFlag;
  recording_steps = recording_steps + heapprof_is_recording();
}

void step_in_child() {
  struct sigaction action {};
  action.sa_sigaction = step;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  stepping = 1;
  raise(SIGTRAP);
  kept = malloc(1111);
  stepping = 0;
  printf("%d\n", recording_steps);
  fflush(stdout);
}

int run_paused_steps() {
  heapprof_pause();
  run_child(step_in_child);
  return 0;
}
#else
int run_paused_steps() { return 1; }
#endif
}  // namespace

int main(int count, char** arguments) {
  if (count > 1) return strcmp(arguments[1], "paused-steps") == 0 ? run_paused_steps() : run_children();
  void* recorded[5];
  void* unrecorded[5];
  const int before = heapprof_is_recording();
  const int child = is_recording_in_child();
  heapprof_mark("before the pause");
  allocate(1111, recorded);
  heapprof_pause();
  const int paused = heapprof_is_recording();
  allocate(2222, unrecorded);
  free_three(recorded);
  heapprof_resume();
  const int after = heapprof_is_recording();
  free_three(unrecorded);
  use_pool();
  heapprof_mark("the end, with \"quotes\" and \xc3\xa4");
  printf("%d %d %d %d\n", before, child, paused, after);
  return 0;
}
