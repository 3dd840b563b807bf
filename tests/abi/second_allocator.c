/* A preloaded allocator that, like some real ones, implements functions by calling others through symbols that the
 * recorder interposes: memalign calls malloc; realloc calls malloc, memcpy and free. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

extern void* __libc_malloc(size_t);
extern void __libc_free(void*);
extern void* __libc_memalign(size_t, size_t);

void* malloc(size_t size) { return __libc_malloc(size); }
void free(void* block) { __libc_free(block); }

void* calloc(size_t count, size_t size) {
  if (size != 0 && count > (size_t)-1 / size) {
    errno = ENOMEM;
    return NULL;
  }
  void* block = malloc(count * size);
  return block != NULL ? memset(block, 0, count * size) : NULL;
}

void* realloc(void* old, size_t size) {
  if (old == NULL) return malloc(size);
  void* block = malloc(size);
  if (block == NULL) return NULL;
  size_t had = malloc_usable_size(old);
  memcpy(block, old, had < size ? had : size);
  free(old);
  return block;
}

void* memalign(size_t alignment, size_t size) {
  return alignment <= 16 ? malloc(size) : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
