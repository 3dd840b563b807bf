/* A library of behaviour.c whose constructor allocates. It runs before the program's constructors. It may run
 * before or after the recorder's constructor, because the recorder depends on libc only. */
#include <stdlib.h>
#include <string.h>

static char* g_block;

__attribute__((constructor)) static void allocate(void) {
  g_block = malloc(10);
  g_block = realloc(g_block, 1000);
  strcpy(g_block, "built");
  free(calloc(7, 7));
  free(aligned_alloc(256, 512));
}

__attribute__((destructor)) static void release(void) { free(g_block); }

int library_allocated_in_constructor(void) { return g_block != NULL && strcmp(g_block, "built") == 0; }
