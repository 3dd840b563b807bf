// Allocations by functions of libc, each called by a function of the program, whose name the test looks for in the
// stack. Built with and without frame pointers.
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CALLER __attribute__((noinline)) static

static void* volatile kept[64];
static int kept_count;

CALLER void keep(void* block) { kept[kept_count++] = block; }

CALLER void by_malloc(void) { keep(malloc(1001)); }
CALLER void by_calloc(void) { keep(calloc(2, 1001)); }
CALLER void by_realloc(void) { keep(realloc(0, 1003)); }
CALLER void by_reallocarray(void) { keep(reallocarray(0, 4, 1001)); }
CALLER void by_aligned_alloc(void) { keep(aligned_alloc(64, 1088)); }
CALLER void by_memalign(void) {
  extern void* memalign(size_t, size_t);
  keep(memalign(128, 1007));
}
CALLER void by_valloc(void) { keep(valloc(1008)); }
CALLER void by_posix_memalign(void) {
  void* block = 0;
  if (posix_memalign(&block, 256, 1009) == 0) keep(block);
}
CALLER void by_strdup(void) { keep(strdup("0123456789")); }
CALLER void by_asprintf(void) {
  char* text = 0;
  if (asprintf(&text, "%0500d", 7) > 0) keep(text);
}
CALLER void by_getline(FILE* file) {
  char* line = 0;
  size_t size = 0;
  if (getline(&line, &size, file) > 0) keep(line);
}
CALLER FILE* by_fopen(void) { return fopen("/proc/self/status", "r"); }
CALLER void by_opendir(void) { keep(opendir("/")); }
CALLER void by_setenv(void) { setenv("HEAP_TEST_VARIABLE", "some value", 1); }
CALLER int comparison(const void* a, const void* b) {
  if (kept_count < 60) keep(malloc(1020));
  return *(const char*)a - *(const char*)b;
}
CALLER void by_qsort(void) {
  char letters[] = "ba";
  qsort(letters, 2, 1, comparison);
}
CALLER void in_handler(int signal) {
  (void)signal;
  keep(strdup("in a signal handler"));
}
CALLER void by_raise(void) {
  signal(SIGUSR1, in_handler);
  raise(SIGUSR1);
}
CALLER void* in_thread(void* argument) {
  keep(strdup("in a thread"));
  return argument;
}
CALLER void by_thread(void) {
  pthread_t thread;
  if (pthread_create(&thread, 0, in_thread, 0) == 0) pthread_join(thread, 0);
}
CALLER void at_end(void) { keep(strdup("at exit")); }

int main(void) {
  by_malloc();
  by_calloc();
  by_realloc();
  by_reallocarray();
  by_aligned_alloc();
  by_memalign();
  by_valloc();
  by_posix_memalign();
  by_strdup();
  by_asprintf();
  FILE* file = by_fopen();
  if (file == 0) return 1;
  by_getline(file);
  by_opendir();
  by_setenv();
  by_qsort();
  by_raise();
  by_thread();
  atexit(at_end);
  return 0;
}
