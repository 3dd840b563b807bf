/* heapprof.h: for programs that want to talk to heapprof's recorder.
 *
 * Include it from C (C99 and later) or C++, link nothing. Where the recorder is not loaded, every call is a
 * test of one pointer and does nothing. All may be called from any thread at any time.
 *
 * The recorder is found at program start, by weak references: the program has to be a dynamic executable
 * (the recorder cannot be loaded into a static one) and the recorder loaded with it, by `heapprof record` or
 * LD_PRELOAD.
 */
#ifndef HEAPPROF_H
#define HEAPPROF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* HEAPPROF_FIND_(pointer, name): the recorder's function, or null. A plain weak reference would do, but in
 * executables linked without PIE the linkers settle it as null for good; one through the global offset table
 * is left to the loader (tried with GNU ld and gold). */
#if defined(__x86_64__)
#define HEAPPROF_FIND_(pointer, name) \
  __asm__(".weak " #name "\n\tmovq " #name "@GOTPCREL(%%rip), %0" : "=r"(pointer))
#elif defined(__aarch64__)
#define HEAPPROF_FIND_(pointer, name) \
  __asm__(".weak " #name "\n\tadrp %0, :got:" #name "\n\tldr %0, [%0, :got_lo12:" #name "]" : "=r"(pointer))
#else
#define HEAPPROF_FIND_(pointer, name) ((pointer) = 0)
#endif

/* Allocations from here on are not recorded. Releases of blocks recorded earlier still are, so that nothing
 * looks leaked that was not. */
static inline void heapprof_pause(void) {
  void (*recorder)(void);
  HEAPPROF_FIND_(recorder, heapprof_recorder_pause);
  if (recorder) recorder();
}

/* Records again. */
static inline void heapprof_resume(void) {
  void (*recorder)(void);
  HEAPPROF_FIND_(recorder, heapprof_recorder_resume);
  if (recorder) recorder();
}

/* Puts a named point into the timeline ("level loaded"). At most 255 bytes of `text` are kept. */
static inline void heapprof_mark(const char* text) {
  void (*recorder)(const char*);
  HEAPPROF_FIND_(recorder, heapprof_recorder_mark);
  if (recorder) recorder(text);
}

/* 1: allocations are being recorded now. 0: no recorder, paused, or it stopped (a full disk, say). */
static inline int heapprof_is_recording(void) {
  int (*recorder)(void);
  HEAPPROF_FIND_(recorder, heapprof_recorder_is_recording);
  return recorder ? recorder() : 0;
}

/* For pools: `block` of `size` bytes was handed out, with the stack of this call. The memory that the pool
 * itself takes from malloc or mmap is recorded as well; pause around that, or tell them apart by stack. */
static inline void heapprof_report_alloc(const void* block, size_t size) {
  void (*recorder)(const void*, size_t);
  HEAPPROF_FIND_(recorder, heapprof_recorder_report_alloc);
  if (recorder) recorder(block, size);
}

/* For pools: `block` was taken back. Before it can be handed out again. */
static inline void heapprof_report_free(const void* block) {
  void (*recorder)(const void*);
  HEAPPROF_FIND_(recorder, heapprof_recorder_report_free);
  if (recorder) recorder(block);
}

#ifdef __cplusplus
}
#endif

#endif
