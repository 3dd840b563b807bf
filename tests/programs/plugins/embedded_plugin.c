/* A plugin with an embedded allocator, which has mimalloc's function names and is not exported. It allocates from the
 * beginning of an area, and starts again at the beginning when all blocks have been freed. */
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

HIDDEN void* site_plugin(size_t bytes) {
  void* block = mi_malloc(bytes);
  __asm__ volatile("" ::: "memory");
  return block;
}

__attribute__((constructor)) static void constructor(void) { mi_free(site_plugin(1000)); }

/* One thread at a time. */
__attribute__((visibility("default"))) void embedded_plugin_work(unsigned blocks) {
  void* held[100];
  if (blocks > 100) blocks = 100;
  for (unsigned i = 0; i < blocks; ++i) held[i] = site_plugin(1000);
  for (unsigned i = 0; i < blocks; ++i) mi_free(held[i]);
}
