/* A library whose calls of malloc bypass the program's preloaded libraries: it is loaded with RTLD_DEEPBIND or into
 * another namespace (bypass.cpp), or it is compiled with DEFINES_MALLOC and linked with -Bsymbolic. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SITE __attribute__((noinline, visibility("default")))

#ifdef DEFINES_MALLOC
/* Calls libc's allocator, and stores the size before each block. A recorder of both would count each block twice. */
extern void* __libc_malloc(size_t);
extern void __libc_free(void*);

static void* store_size(char* block, size_t bytes) {
  if (block == NULL) return NULL;
  *(size_t*)block = bytes;
  return block + 16;
}
__attribute__((noinline)) void* malloc(size_t bytes) { return store_size(__libc_malloc(bytes + 16), bytes); }
__attribute__((noinline)) void free(void* block) {
  if (block != NULL) __libc_free((char*)block - 16);
}
/* Calls malloc and free, which the linker has bound to those above. */
__attribute__((noinline)) void* calloc(size_t count, size_t bytes) {
  void* block = malloc(count * bytes);
  return block == NULL ? NULL : memset(block, 0, count * bytes);
}
__attribute__((noinline)) void* realloc(void* block, size_t bytes) {
  void* larger = malloc(bytes);
  if (block != NULL && larger != NULL) {
    size_t old = ((size_t*)block)[-2];
    memcpy(larger, block, old < bytes ? old : bytes);
    free(block);
  }
  return larger;
}
__attribute__((noinline)) int posix_memalign(void** block, size_t alignment, size_t bytes) {
  char* memory = __libc_malloc(bytes + alignment + 16);
  char* at = (char*)(((uintptr_t)memory + 16 + alignment - 1) & ~(alignment - 1));
  *block = at;
  return 0; /* never freed */
}
#endif

SITE void* site_bypass_malloc(size_t bytes) {
  void* block = malloc(bytes);
  __asm__ volatile("" ::: "memory");
  return block;
}
SITE void* site_bypass_calloc(size_t bytes) {
  void* block = calloc(1, bytes);
  __asm__ volatile("" ::: "memory");
  return block;
}
SITE void* site_bypass_realloc(void* block, size_t bytes) {
  block = realloc(block, bytes);
  __asm__ volatile("" ::: "memory");
  return block;
}
SITE void* site_bypass_aligned(size_t bytes) {
  void* block = NULL;
  if (posix_memalign(&block, 64, bytes) != 0) return NULL;
  __asm__ volatile("" ::: "memory");
  return block;
}

static volatile size_t any = 0, refused = SIZE_MAX / 2 + 17, small = 100, large = (size_t)1 << 60;

/* Two calls without a block: for the first one, with any alignment, there is no memory. The alignment of the second
 * one is refused, so it is no failed allocation. */
SITE void site_bypass_without_block(void) {
  if (memalign(any, large) != NULL || memalign(refused, small) != NULL) abort();
}

/* malloc 1000, reallocated to 300000 and to 5000; calloc 200; posix_memalign 320, leaked; an allocation that fails.
 * Returns a block of 70. */
SITE void* bypass_work(void) {
  site_bypass_without_block();
  void* grown = site_bypass_malloc(1000);
  grown = site_bypass_realloc(grown, 300000);
  grown = site_bypass_realloc(grown, 5000);
  free(site_bypass_calloc(200));
  site_bypass_aligned(320);
  free(grown);
  return site_bypass_malloc(70);
}
SITE void bypass_release(void* block) { free(block); }
