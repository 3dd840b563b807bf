// A library with an allocator of its own, in a pool of POOL_BYTES: for tests/programs/embedded_places.cpp.
#include <stddef.h>

static char pool[POOL_BYTES];
static size_t used;

void* je_malloc(size_t size) {
  void* const block = pool + used;
  used = (used + size + 15) / 16 * 16 % (POOL_BYTES / 2);
  return block;
}

void je_free(void* block) {
  if (block != NULL) *(char*)block = 0;
}

void* pool_allocate(void) {
  void* const block = je_malloc(100);
  je_free(block);
  return block;
}
