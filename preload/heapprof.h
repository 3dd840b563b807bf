/* heapprof.h: lets a program control heapprof's recorder, and report the blocks of its own pools.
 *
 * Include it from C (C99 and later) or C++; nothing has to be linked. Without the recorder, each function tests one
 * pointer and does nothing. All functions may be called from any thread and any signal handler at any time. None
 * fails or changes errno; a null text or block is ignored.
 *
 * The functions find the recorder by weak references. So the program must be a dynamic executable, and the recorder
 * must be loaded when the program starts: by `heapprof record` or LD_PRELOAD.
 */
#ifndef HEAPPROF_H
#define HEAPPROF_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* HEAPPROF_FIND_(pointer, name): the recorder's function, or null. The reference goes through the global offset
 * table: in executables without PIE, linkers (GNU ld and gold were tried) resolve a plain weak reference to null. */
#if defined(__x86_64__)
#define HEAPPROF_FIND_(pointer, name) __asm__(".weak " #name "\n\tmovq " #name "@GOTPCREL(%%rip), %0" : "=r"(pointer))
#elif defined(__aarch64__)
#define HEAPPROF_FIND_(pointer, name) \
  __asm__(".weak " #name "\n\tadrp %0, :got:" #name "\n\tldr %0, [%0, :got_lo12:" #name "]" : "=r"(pointer))
#else
#define HEAPPROF_FIND_(pointer, name) ((pointer) = 0)
#endif

/* Pauses recording in all threads: allocations that follow are not recorded. Frees of recorded blocks still are, so
 * that these blocks do not count as leaked. Pauses do not nest. A forked child that is recorded begins paused if its
 * parent was paused. */
static inline void heapprof_pause(void) {
  void (*recorder)(void);
  HEAPPROF_FIND_(recorder, heapprof_recorder_pause);
  if (recorder) recorder();
}

/* Resumes recording, however often it was paused. */
static inline void heapprof_resume(void) {
  void (*recorder)(void);
  HEAPPROF_FIND_(recorder, heapprof_recorder_resume);
  if (recorder) recorder();
}

/* Adds a mark to the timeline ("level loaded"). `text` ends with NUL; the recording has its first 256 bytes. */
static inline void heapprof_mark(const char* text) {
  void (*recorder)(const char*);
  HEAPPROF_FIND_(recorder, heapprof_recorder_mark);
  if (recorder) recorder(text);
}

/* Returns 1 if allocations are being recorded; 0 without the recorder, while it is paused, in a forked child that is
 * not recorded, or when it has stopped (a full disk, for example). */
static inline int heapprof_is_recording(void) {
  int (*recorder)(void);
  HEAPPROF_FIND_(recorder, heapprof_recorder_is_recording);
  return recorder ? recorder() : 0;
}

/* For pools: records that `block`, of `size` bytes, has been allocated, with the stack of this call. The memory that
 * the pool itself gets from malloc or mmap is recorded too: pause recording around these calls, or distinguish them
 * by their stacks. */
static inline void heapprof_report_alloc(const void* block, size_t size) {
  void (*recorder)(const void*, size_t);
  HEAPPROF_FIND_(recorder, heapprof_recorder_report_alloc);
  if (recorder) recorder(block, size);
}

/* For pools: records that `block` has been freed. Call it before the pool can allocate the block again. */
static inline void heapprof_report_free(const void* block) {
  void (*recorder)(const void*);
  HEAPPROF_FIND_(recorder, heapprof_recorder_report_free);
  if (recorder) recorder(block);
}

#ifdef __cplusplus
}
#endif

#endif
