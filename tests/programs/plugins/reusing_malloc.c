// An allocator that gives a block of 97 to 128 bytes one of 1024 addresses, which any thread can get as soon as it
// was freed. A thread begins its search for a free one in a page of its own for a while, then in another one. All
// other blocks are glibc's. A realloc to half the address space fails.
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { kAddresses = 1024, kBytes = 128, kInPage = 4096 / kBytes, kAllocationsInPage = 400 };

extern void* __libc_malloc(size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void __libc_free(void* block);

static _Alignas(4096) char memory[kAddresses][kBytes];
static atomic_uchar taken[kAddresses];
static _Thread_local uint32_t random_state, allocations;

static int is_ours(const void* block) { return (size_t)((const char*)block - memory[0]) < sizeof memory; }

void* malloc(size_t size) {
  if (size <= 96 || size > kBytes) return __libc_malloc(size);
  random_state = random_state * 1664525 + 1013904223;
  const uint32_t thread = (uint32_t)((uintptr_t)&random_state >> 12);
  const uint32_t page = thread + allocations++ / kAllocationsInPage * 7;
  const uint32_t first = page * kInPage + (random_state >> 16) % kInPage;
  for (uint32_t i = 0; i < kAddresses; ++i) {
    const uint32_t index = (first + i) % kAddresses;
    unsigned char expected = 0;
    if (atomic_load_explicit(&taken[index], memory_order_relaxed) == 0 &&
        atomic_compare_exchange_strong_explicit(&taken[index], &expected, 1, memory_order_acquire,
                                                memory_order_relaxed))
      return memory[index];
  }
  return __libc_malloc(size);
}

void free(void* block) {
  if (is_ours(block)) atomic_store_explicit(&taken[((char*)block - memory[0]) / kBytes], 0, memory_order_release);
  else __libc_free(block);
}

void* realloc(void* block, size_t size) {
  if (!is_ours(block)) return __libc_realloc(block, size);
  if (size >= SIZE_MAX / 2) return NULL;
  void* const moved = malloc(size);
  if (moved == NULL) return NULL;
  memcpy(moved, block, size < kBytes ? size : kBytes);
  free(block);
  return moved;
}
