// A program with the signs of mimalloc without its symbols (a message and madvise), and of CPython with the global
// interpreter lock: the beginning of _PyRuntime.
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

struct Runtime {
  char cookie[8];
  unsigned long version;
  unsigned long free_threaded;
};
extern struct Runtime _PyRuntime;
struct Runtime _PyRuntime = {{'x', 'd', 'e', 'b', 'u', 'g', 'p', 'y'}, 0x030d00f0, 0};

// Much code, so that few symbols are no table of all functions.
__asm__(".text\n.skip 0x40000, 0x90\n");

static const char* volatile message = "mimalloc: error: ";

int main(void) {
  free(malloc(100));
  return madvise(NULL, 0, MADV_DONTNEED) != 0 || message[0] != 'm';
}
