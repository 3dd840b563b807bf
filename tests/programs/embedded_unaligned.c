// An allocator in the file of its callers. GCC sees that its functions do not need an aligned stack, and does not
// align the stack for their calls (-fipa-stack-alignment, part of -O2).
#include <stddef.h>
#include <stdio.h>

static char area[1 << 20];
static size_t used;

#define ALLOCATOR __attribute__((noinline))

ALLOCATOR void* je_malloc(size_t size) {
  void* block = area + used;
  used += (size + 15) & ~(size_t)15;
  if (used > sizeof area) return NULL;
  *(volatile char*)block = 1;
  return block;
}

ALLOCATOR void je_free(void* block) {
  if (block != NULL) *(volatile char*)block = 0;
}

ALLOCATOR void* je_calloc(size_t count, size_t size) {
  volatile char* block = je_malloc(count * size);
  if (block != NULL)
    for (size_t i = 0; i < count * size; ++i) block[i] = 0;
  return (void*)block;
}

static __attribute__((noinline)) void allocate(void) {
  for (int i = 0; i < 100; ++i) je_free(je_malloc(100));
  je_calloc(3, 7);
}

int main(void) {
  allocate();
  puts("done");
  return 0;
}
