// Executes another program.
//
// usage: exec_chain MODE PROGRAM ARGUMENT...
//
//   exec        allocates, then executes PROGRAM
//   fork        allocates, forks; the child allocates and executes PROGRAM; the parent waits and exits with its
//   status vfork       the same with vfork child       forks a child that allocates 1000 blocks of 77 bytes and
//   exits; PROGRAM is not used child_exit  the same, but the child calls _exit _exit       allocates and calls _exit
//   abort       allocates and aborts
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {
void* volatile kept;
[[gnu::noinline]] void allocate_before_exec() {
  for (int i = 0; i < 100; ++i) kept = malloc(55);
}
[[gnu::noinline]] void allocate_in_child() {
  for (int i = 0; i < 1000; ++i) kept = malloc(77);
}
int wait_for(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) return 99;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}
}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* how = argv[1];
  allocate_before_exec();
  if (strcmp(how, "_exit") == 0) _exit(7);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "child") == 0 || strcmp(how, "child_exit") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      allocate_in_child();
      if (strcmp(how, "child_exit") == 0) _exit(5);
      exit(5);
    }
    return wait_for(child);
  }
  if (argc < 3) return 2;
  if (strcmp(how, "fork") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      allocate_in_child();
      execv(argv[2], argv + 2);
      _exit(97);
    }
    return wait_for(child);
  }
  if (strcmp(how, "vfork") == 0) {
    const pid_t child = vfork();
    if (child == 0) {
      execv(argv[2], argv + 2);
      _exit(97);
    }
    return wait_for(child);
  }
  execv(argv[2], argv + 2);
  return 97;
}
