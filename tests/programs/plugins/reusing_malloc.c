// An allocator that gives a block of 97 to 128 bytes one of 256 addresses, which any thread can get as soon as it was
// freed. All others are glibc's. A realloc to half the address space fails.
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { kAddresses = 256, kBytes = 128 };

extern void* __libc_malloc(size_t size);
extern void* __libc_realloc(void* block, size_t size);
extern void __libc_free(void* block);

static _Alignas(4096) char memory[kAddresses][kBytes];
static atomic_uchar taken[kAddresses];
static _Thread_local uint32_t next_address;

static int is_ours(const void* block) { return (size_t)((const char*)block - memory[0]) < sizeof memory; }

void* malloc(size_t size) {
  if (size <= 96 || size > kBytes) return __libc_malloc(size);
  uint32_t at = next_address * 1664525 + 1013904223;
  next_address = at + (uint32_t)(uintptr_t)&next_address;
  for (uint32_t i = 0; i < kAddresses; ++i) {
    const uint32_t index = (at >> 16) + i & (kAddresses - 1);
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
