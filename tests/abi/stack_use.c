/* Measures how much stack a malloc and a free use. They run on a separate stack, which is filled with a pattern
 * before each call. Prints
 *
 *   context first BYTES common BYTES all BYTES
 *   thread first BYTES common BYTES all BYTES
 *
 * for a coroutine's stack and for a new thread's: the stack used by the first calls, by the fast path, and the
 * maximum over enough calls to fill several staging blocks and the space reserved in the file. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { kStackBytes = 256 * 1024, kPaint = 0xa5, kMargin = 256 };

static _Alignas(4096) unsigned char g_stack[kStackBytes];
static const char* g_kind;

static __attribute__((noinline)) void pairs(int count) {
  for (int i = 0; i < count; ++i) free(malloc(24));
}

/* Fills everything below this frame with the pattern, makes the calls, and returns how far down they wrote, but at
 * least kMargin. */
static __attribute__((noinline)) size_t depth_of(int count) {
  unsigned char* here = __builtin_frame_address(0);
  unsigned char* below = here - kMargin;
  memset(g_stack, kPaint, (size_t)(below - g_stack));
  pairs(count);
  unsigned char* at = g_stack;
  while (at < below && *at == kPaint) ++at;
  return (size_t)(here - at);
}

static void measure(void) {
  size_t first = depth_of(1), common = SIZE_MAX, all = 0;
  for (int i = 0; i < 200; ++i) {
    size_t used = depth_of(1);
    if (used < common) common = used;
  }
  for (int i = 0; i < 400; ++i) {
    size_t used = depth_of(1000);
    if (used > all) all = used;
  }
  printf("%s first %zu common %zu all %zu\n", g_kind, first, common, all);
}

static void* measure_thread(void* argument) {
  measure();
  return argument;
}

int main(void) {
  free(malloc(1)); /* binds both functions */
  g_kind = "context";
  static ucontext_t here, other;
  getcontext(&other);
  other.uc_stack.ss_sp = g_stack;
  other.uc_stack.ss_size = sizeof g_stack;
  other.uc_link = &here;
  makecontext(&other, measure, 0);
  swapcontext(&here, &other);

  g_kind = "thread";
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, g_stack, sizeof g_stack);
  pthread_t thread;
  pthread_create(&thread, &attributes, measure_thread, NULL);
  pthread_join(thread, NULL);
  return 0;
}
