/* Calls every hook once or twice, and announces each call in the stream of reports. reports_test.py compares the
 * reports that follow with what the recorder has to receive. Built with -O0 -fno-builtin. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/heapprof.h"

static int g_reports;

static void about_to(const char* what) {
  write(g_reports, "# ", 2);
  write(g_reports, what, strlen(what));
  write(g_reports, "\n", 1);
}

/* For functions that this libc may lack. The recorder exports all of them. */
static void* find(const char* name) { return dlsym(RTLD_DEFAULT, name); }

static volatile size_t g_huge = SIZE_MAX - 64;
static volatile size_t g_half = SIZE_MAX / 2 + 10;

static void use_header(void* block) {
  about_to("heapprof.h");
  heapprof_pause();
  heapprof_resume();
  heapprof_mark("halfway");
  heapprof_report_alloc(block, 24);
  heapprof_report_free(block);
  heapprof_report_alloc(NULL, 24);
  heapprof_report_free(NULL);
  about_to("is recording");
  if (heapprof_is_recording() == 1) about_to("yes");
}

int main(int count, char** arguments) {
  const char* const how = count > 1 ? arguments[1] : "";
  g_reports = atoi(getenv("HEAPPROF_REPORTS"));
  void* block;
  if (strcmp(how, "header only") == 0) { /* also runs without the recorder */
    use_header(&block);
    return 0;
  }

  about_to("malloc");
  block = malloc(100);
  about_to("realloc");
  block = realloc(block, 200);
  about_to("realloc fails");
  realloc(block, g_huge);
  about_to("reallocarray");
  block = reallocarray(block, 10, 30);
  about_to("reallocarray overflows");
  reallocarray(block, g_half, 2);
  about_to("free");
  free(block);
  about_to("free null");
  free(NULL);
  about_to("realloc null");
  block = realloc(NULL, 70);
  about_to("realloc to 0");
  realloc(block, 0);
  about_to("malloc fails");
  malloc(g_huge);
  about_to("calloc");
  block = calloc(11, 7);
  about_to("calloc overflows");
  calloc(g_half, 2);
  about_to("cfree");
  ((void (*)(void*))find("cfree"))(block);
  about_to("malloc 0");
  block = malloc(0);
  about_to("free_sized");
  ((void (*)(void*, size_t))find("free_sized"))(block, 0);
  about_to("posix_memalign");
  posix_memalign(&block, 64, 90);
  about_to("free_aligned_sized");
  ((void (*)(void*, size_t, size_t))find("free_aligned_sized"))(block, 64, 90);
  about_to("posix_memalign fails");
  posix_memalign(&block, 64, (size_t)1 << 56);
  about_to("posix_memalign with an invalid alignment");
  posix_memalign(&block, 3, 90);
  about_to("aligned_alloc");
  free(aligned_alloc(128, 256));
  about_to("memalign");
  free(memalign(32, 40));
  about_to("valloc");
  free(valloc(50));
  about_to("pvalloc");
  free(pvalloc(60));

  about_to("mmap");
  block = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  about_to("mremap");
  block = mremap(block, 8192, 12288, MREMAP_MAYMOVE);
  about_to("munmap");
  munmap(block, 12288);
  about_to("munmap fails");
  munmap((char*)block + 1, 4096);
  about_to("mmap fails");
  mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  about_to("mmap64");
  block = mmap64(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  about_to("mremap of size 0");
  munmap(mremap(block, 0, 4096, MREMAP_MAYMOVE), 4096);
  about_to("mremap fails");
  mremap(block, 4096, 0, MREMAP_MAYMOVE);
  about_to("mremap to an address");
  block = mremap(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, 4096,
                 MREMAP_MAYMOVE | MREMAP_FIXED, block);
  about_to("mmap to an address");
  mmap(block, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  about_to("mmap to an address fails");
  mmap((char*)block + 1, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  about_to("mremap to an address fails");
  mremap(block, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (char*)block + 1);
  about_to("mmap by number");
  block = (void*)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  about_to("munmap by number");
  syscall(SYS_munmap, block, 4096);
  about_to("sbrk");
  block = sbrk(0);
  sbrk(300);
  about_to("brk");
  brk((char*)block + 100);
  about_to("brk that moves nothing");
  brk((void*)1);
  sbrk(0);
  about_to("brk by number");
  long end = syscall(SYS_brk, 0);
  syscall(SYS_brk, end + 4096);
  syscall(SYS_brk, end);
  about_to("other calls by number");
  syscall(SYS_gettid);

  about_to("prctl");
  prctl(PR_SET_NAME, "reports");
  about_to("a probe for seccomp support");
  prctl(PR_SET_SECCOMP, 2, NULL);
  syscall(SYS_seccomp, 1, 0, NULL);
  syscall(SYS_seccomp, 2, 0, (char[]){0, 0, 0, 0});
  about_to("filters");
  /* An empty filter, which the kernel refuses; the recorder cannot know that before the call. */
  char empty[16] = {0};
  prctl(PR_SET_SECCOMP, 2, empty);
  syscall(SYS_seccomp, 1, 0, empty);
  syscall(SYS_prctl, PR_SET_SECCOMP, 2, empty);
  about_to("cycle clock");
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
  prctl(PR_SET_TSC, PR_TSC_ENABLE);

  about_to("frames");
  static const char nothing[8];
  void* table[3] = {(void*)nothing, (void*)nothing, NULL};
  ((void (*)(const void*))find("__register_frame"))(nothing);
  ((void (*)(const void*))find("__deregister_frame"))(nothing);
  ((void (*)(void*))find("__register_frame_table"))(table);

  use_header(&block);
  char* command[] = {"true", NULL};
  about_to("executions that fail");
  execve("/nonexistent/true", command, environ);
  execv("/nonexistent/true", command);
  execvp("/nonexistent/true", command);
  execvpe("/nonexistent/true", command, environ);
  about_to("executions of something that can be searched, but not executed");
  execve("/", command, environ);
  execv("/", command);
  execvp("/", command);
  execvpe("/", command, environ);
  execl("/", "true", NULL);
  execlp("/", "true", NULL);
  execle("/", "true", NULL, environ);
  execvp("nonexistent-true", command);
  execvpe("nonexistent-true", command, environ);
  fexecve(-1, command, environ);
  about_to("end");
  if (strcmp(how, "_exit") == 0) _exit(0);
  if (strcmp(how, "_Exit") == 0) _Exit(0);
  if (strcmp(how, "quick_exit") == 0) quick_exit(0);
  return 0;
}
