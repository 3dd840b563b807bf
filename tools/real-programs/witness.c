/* Preloaded with the recorder: at exit, writes mallinfo2 to a file and a mark to the trace, so that
 * tools/real-programs/figures.py can compare the two.
 *
 * mallinfo2 counts chunks: blocks with header and rounding (8 to 24 bytes more than requested, up to a page more for
 * mapped blocks). Chunks in the caches of threads count as allocated, therefore run.py disables these caches with
 * GLIBC_TUNABLES. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/heapprof.h"

__attribute__((destructor)) static void write_mallinfo(void) {
  const int saved = errno;
  const char* directory = getenv("HEAPPROF_WITNESS");
  if (directory == NULL || !heapprof_is_recording()) return;
  heapprof_mark("witness");
  const struct mallinfo2 info = mallinfo2();
  char path[512];
  snprintf(path, sizeof path, "%s/%d", directory, (int)getpid());
  char line[128];
  const int bytes = snprintf(line, sizeof line, "%zu %zu\n", info.uordblks, info.hblkhd);
  const int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor >= 0) {
    if (write(descriptor, line, (size_t)bytes) < 0) unlink(path);
    close(descriptor);
  }
  errno = saved;
}
