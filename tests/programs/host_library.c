/* Loaded by hosts.cpp with RTLD_DEEPBIND, or into another namespace. With BIG_STATIC_TLS it needs most of the static
 * thread-local storage that libc reserves for libraries that are loaded later. */
#include <stdlib.h>

#ifdef BIG_STATIC_TLS
__thread char much[1300] __attribute__((tls_model("initial-exec")));
#endif

void* make_block(size_t size) {
#ifdef BIG_STATIC_TLS
  much[size % sizeof much] = 1;
#endif
  return malloc(size);
}

void drop_block(void* block) { free(block); }
