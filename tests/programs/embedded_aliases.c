/* A program that defines malloc, as browsers do: free, cfree and operator delete are one function with many names, as
 * linkers that fold equal functions leave them. Every block has a new address, so that no block is mistaken for
 * another one.
 *
 * usage: embedded_aliases COUNT    allocates COUNT blocks of 48 bytes and frees all but every tenth */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIAS_OF_FREE __attribute__((alias("free"), nothrow, leaf))

static char area[64 << 20] __attribute__((aligned(64)));
static size_t used;
static size_t freed;

void* malloc(size_t bytes) {
  size_t* block = (size_t*)(area + __atomic_fetch_add(&used, (bytes + 31) / 16 * 16, __ATOMIC_RELAXED));
  if ((char*)block + bytes + 16 > area + sizeof area) return NULL;
  *block = bytes;
  return (char*)block + 16;
}

void free(void* block) {
  if (block != NULL) __atomic_fetch_add(&freed, 1, __ATOMIC_RELAXED);
}
void cfree(void* block) ALIAS_OF_FREE;
void free_sized(void* block, size_t bytes) ALIAS_OF_FREE;
void _ZdlPv(void* block) ALIAS_OF_FREE;
void _ZdaPv(void* block) ALIAS_OF_FREE;

void* calloc(size_t count, size_t bytes) { return malloc(count * bytes); /* the area is zeroed, and used once */ }

void* realloc(void* block, size_t bytes) {
  void* moved = malloc(bytes);
  if (moved == NULL || block == NULL) return moved;
  const size_t old = *(size_t*)((char*)block - 16);
  memcpy(moved, block, old < bytes ? old : bytes);
  free(block);
  return moved;
}

int main(int argc, char** argv) {
  const long count = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  for (long i = 0; i < count; ++i) {
    void* block = malloc(48);
    if (i % 10 != 0) free(block);
  }
  return 0;
}
