/* Registers unwind tables as a just-in-time compiler does, and checks whether libgcc has them.
 *
 * usage: jit_frames MODE
 *
 *   policy    process_vm_readv is forbidden from the start, as by a container's policy; libgcc_s is loaded then
 *   sandbox   libgcc_s is loaded, system calls are restricted, then tables are registered
 *   before    the same, but tables are registered before the restriction and deregistered after it
 *   late      system calls are restricted before libgcc_s is loaded
 *   without   registered before libgcc_s is loaded, deregistered after
 *   many      the same with 5,000 tables
 *   many_late the same with 5,000 tables, where system calls are restricted before libgcc_s is loaded
 *   reused    registered before libgcc_s is loaded, never deregistered; registered again after, and deregistered
 *
 * Prints whether libgcc finds the tables after the registration, and after the deregistration. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static char code[64];
enum { kMany = 5000 };
static _Alignas(8) unsigned char tables[80];
static _Alignas(8) unsigned char many_tables[kMany][80];

/* A common entry and one for `code`, in .eh_frame's form, with absolute addresses; then a length of 0. */
static void write_tables(unsigned char* tables) {
  static const unsigned char common[] = {0x14, 0,    0,  0, 0,    0,    0, 0, 1,    'z', 'R', 0,
                                         1,    0x78, 16, 1, 0x00, 0x0c, 7, 8, 0x90, 1,   0,   0};
  static const unsigned char entry[] = {0x1c, 0, 0, 0, 0x1c, 0, 0, 0};
  const uint64_t range[] = {(uint64_t)(uintptr_t)code, sizeof code};
  memcpy(tables, common, sizeof common);
  memcpy(tables + 24, entry, sizeof entry);
  memcpy(tables + 32, range, sizeof range);
}

/* `hooked`: by a function that the recorder hooks. */
static void restrict_calls(int hooked) {
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  /* Through the handle of libc, dlsym finds the function of libc. */
  int (*call)(int, ...) = prctl;
  if (!hooked) {
    void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    call = (int (*)(int, ...))dlsym(libc, "prctl");
  }
  if (call(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || call(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
    exit(3);
}

static const void* (*find)(void*, void*);

static void load(void) {
  void* library = dlopen("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) exit(77);
  find = (const void* (*)(void*, void*))dlsym(library, "_Unwind_Find_FDE");
}

static int found(void) {
  void* bases[3];
  return find(code + 8, bases) != NULL;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  write_tables(tables);
  if (dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL) return 2;
  if (strcmp(mode, "policy") == 0) restrict_calls(0);
  const int many = strcmp(mode, "many") == 0 || strcmp(mode, "many_late") == 0;
  const int reused = strcmp(mode, "reused") == 0;
  if (strcmp(mode, "late") == 0 || strcmp(mode, "many_late") == 0) restrict_calls(1);
  const int load_later = strcmp(mode, "without") == 0 || many || reused;
  if (!load_later) load();
  if (strcmp(mode, "sandbox") == 0) restrict_calls(1);
  /* Without the recorder, the functions of libgcc. */
  void* self = dlopen(NULL, RTLD_LAZY);
  void* library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void (*add)(void*) = (void (*)(void*))dlsym(self, "__register_frame");
  void (*remove)(void*) = (void (*)(void*))dlsym(self, "__deregister_frame");
  if (add == NULL && library == NULL) return 4;
  if (add == NULL) add = (void (*)(void*))dlsym(library, "__register_frame");
  if (remove == NULL) remove = (void (*)(void*))dlsym(library, "__deregister_frame");
  add(tables);
  if (many)
    for (int i = 0; i < kMany; ++i) {
      write_tables(many_tables[i]);
      add(many_tables[i]);
    }
  if (load_later) load();
  if (reused) add(tables);
  const int registered = found();
  if (strcmp(mode, "before") == 0) restrict_calls(1);
  for (int i = 0; many && i < kMany; ++i) remove(many_tables[i]);
  remove(tables);
  printf("%d %d\n", registered, found());
  return 0;
}
