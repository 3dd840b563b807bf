// Calls functions of mimalloc that allocate without calling another function of mimalloc. Most duplicate a string.
// Some refuse their alignment.
#include <stddef.h>

char* mi_strdup(const char* text);
char* mi_strndup(const char* text, size_t most);
char* mi_mbsdup(const char* text);
char* mi_realpath(const char* path, char* resolved);
void* mi_heap_get_default(void);
char* mi_heap_strdup(void* heap, const char* text);
char* mi_heap_strndup(void* heap, const char* text, size_t most);
void* mi_heap_alloc_new(void* heap, size_t bytes);
void* mi_heap_alloc_new_n(void* heap, size_t count, size_t bytes);
int mi_posix_memalign(void** block, size_t alignment, size_t bytes);
void* mi_memalign(size_t alignment, size_t bytes);
void* mi_aligned_alloc(size_t alignment, size_t bytes);
void* mi_malloc_aligned(size_t bytes, size_t alignment);
void* mi_heap_calloc_aligned(void* heap, size_t count, size_t bytes, size_t alignment);
void mi_free(void* block);

const char* volatile nothing = NULL;

int main(int count, char** arguments) {
  if (count < 2 || arguments[1][0] == '0') return 0;
  for (int i = 0; i < 10; ++i) {
    mi_strdup("ten bytes");
    mi_strndup("eleven bytes", 10);
    mi_strndup("twelve bytes", 40);
    mi_mbsdup("fourteen bytes");
    mi_free(mi_heap_strdup(mi_heap_get_default(), "it has eighteen b"));
    mi_heap_strndup(mi_heap_get_default(), "it has fifteen bytes", 14);
    mi_realpath("/proc/version", NULL);
    mi_heap_alloc_new(mi_heap_get_default(), 33);
    mi_heap_alloc_new_n(mi_heap_get_default(), 3, 15);
    void* block = NULL;
    if (mi_posix_memalign(&block, 3, 100) == 0) return 1;
    if (mi_memalign(3, 100) != NULL || mi_aligned_alloc(3, 100) != NULL) return 1;
    if (mi_malloc_aligned(100, 3) != NULL) return 1;
    if (mi_heap_calloc_aligned(mi_heap_get_default(), 2, 50, 3) != NULL) return 1;
    if (mi_strdup(nothing) != NULL || mi_strndup(nothing, 3) != NULL) return 1;
  }
  return 0;
}
