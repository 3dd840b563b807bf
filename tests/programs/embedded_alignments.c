// An allocator that refuses an alignment that is no power of two, and that soon has no memory.
//
// usage: embedded_alignments 1|0    0 calls none of its functions
#include <stddef.h>

static char area[1 << 16] __attribute__((aligned(64)));
static size_t used;

#define ALLOCATOR __attribute__((noinline))

ALLOCATOR void* je_memalign(size_t alignment, size_t size) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) return NULL;
  size_t begin = (used + alignment - 1) & ~(alignment - 1);
  if (size > sizeof area - begin) return NULL;
  used = begin + size;
  return area + begin;
}

ALLOCATOR void* je_aligned_alloc(size_t alignment, size_t size) { return je_memalign(alignment, size); }

// Not known when this is compiled, so that no function is replaced by a copy for one value.
static volatile size_t valid = 64, invalid = 24, zero = 0, small = 100, large = 1 << 20;

int main(int count, char** arguments) {
  if (count < 2 || arguments[1][0] == '0') return 0;
  for (int i = 0; i < 10; ++i) {
    if (je_memalign(valid, small) == NULL || je_aligned_alloc(valid, small) == NULL) return 1;
    if (je_memalign(invalid, small) != NULL || je_aligned_alloc(invalid, small) != NULL) return 1;
    if (je_memalign(zero, small) != NULL) return 1;
    if (je_memalign(valid, large) != NULL || je_aligned_alloc(valid, large) != NULL) return 1;
  }
  return 0;
}
