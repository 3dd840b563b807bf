/* A plugin that carries an allocator of its own, under mimalloc's names and not exported: a piece of memory that is
 * given out from its beginning, and from the beginning again when all blocks have come back. */
#include <stddef.h>
#include <stdlib.h>

#define HIDDEN __attribute__((visibility("hidden"), noinline, used))

static char area[1 << 20];
static size_t used;
static unsigned live;

HIDDEN void* mi_malloc(size_t bytes) {
  if (used + bytes + 64 > sizeof area) abort();
  void* block = area + used;
  used += (bytes + 63) / 64 * 64;
  ++live;
  return block;
}

HIDDEN void mi_free(void* block) {
  if (block != NULL && --live == 0) used = 0;
}

HIDDEN void* site_plugin_own(size_t bytes) {
  void* block = mi_malloc(bytes);
  __asm__ volatile("" ::: "memory");
  return block;
}

__attribute__((constructor)) static void first(void) { mi_free(site_plugin_own(1000)); }

/* One thread at a time. */
__attribute__((visibility("default"))) void own_plugin_work(unsigned blocks) {
  void* held[100];
  if (blocks > 100) blocks = 100;
  for (unsigned i = 0; i < blocks; ++i) held[i] = site_plugin_own(1000);
  for (unsigned i = 0; i < blocks; ++i) mi_free(held[i]);
}
