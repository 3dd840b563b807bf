/* Loads lz4, libunwind and mimalloc, of other versions than those that the recorder contains. Each of the program's
 * calls must reach the loaded library.
 *
 * usage: private_libraries LZ4 LIBUNWIND MIMALLOC    paths; "-" for a library that is not installed */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void* load(const char* path) {
  if (strcmp(path, "-") == 0) return NULL;
  void* library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  return library;
}

/* Whether the program's references to `name` reach the library. */
static int is_reached(void* library, const char* name) {
  return dlsym(RTLD_DEFAULT, name) == dlsym(library, name) && dlsym(library, name) != NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  void* lz4 = load(argv[1]);
  void* unwind = load(argv[2]);
  void* mimalloc = load(argv[3]);
  for (int i = 0; i < 1000; ++i) free(malloc(100 + i));
  if (lz4 != NULL) {
    int (*bound)(int) = (int (*)(int))dlsym(lz4, "LZ4_compressBound");
    int (*compress)(const char*, char*, int, int) =
        (int (*)(const char*, char*, int, int))dlsym(lz4, "LZ4_compress_default");
    int (*expand)(const char*, char*, int, int) =
        (int (*)(const char*, char*, int, int))dlsym(lz4, "LZ4_decompress_safe");
    static char text[10000], packed[20000], again[10000];
    memset(text, 'x', sizeof text);
    if (!is_reached(lz4, "LZ4_compress_fast_extState") || bound(10000) > (int)sizeof packed) return 1;
    int bytes = compress(text, packed, sizeof text, sizeof packed);
    if (expand(packed, again, bytes, sizeof again) != (int)sizeof text || memcmp(text, again, sizeof text) != 0)
      return 1;
  }
  if (unwind != NULL) {
    int (*backtrace)(void**, int) = (int (*)(void**, int))dlsym(unwind, "unw_backtrace");
    void* frames[50];
    if (!is_reached(unwind, "unw_backtrace") || backtrace(frames, 50) < 2) return 1;
  }
  if (mimalloc != NULL) {
    void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(mimalloc, "mi_malloc");
    void (*release)(void*) = (void (*)(void*))dlsym(mimalloc, "mi_free");
    if (!is_reached(mimalloc, "mi_malloc")) return 1;
    for (int i = 0; i < 1000; ++i) release(allocate(100 + i));
  }
  for (int i = 0; i < 1000; ++i) free(malloc(100 + i));
  puts("reached");
  return 0;
}
