// Frees all blocks of a heap while glibc keeps its end: freed_end [BLOCKS].
//
// Blocks of 100 bytes go to lists of their own (fast bins) when they are freed, and glibc looks at the end of the
// heap only when a free joins 64 KiB. Prints the private resident bytes before and after malloc_trim(0), with a mark
// before it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

#include "preload/heapprof.h"

namespace {

/// RssAnon, read without an allocation.
unsigned long long private_bytes() {
  char text[4096];
  const int file = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  const ssize_t length = ::read(file, text, sizeof text - 1);
  ::close(file);
  if (length <= 0) std::abort();
  text[length] = '\0';
  const char* const line = std::strstr(text, "RssAnon:");
  return line == nullptr ? 0 : std::strtoull(line + 8, nullptr, 10) * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 300'000;
  ::prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL);  // as in fragmentation.cpp
  char output[4096];
  std::setvbuf(stdout, output, _IOFBF, sizeof output);  // not allocated
  std::vector<void*> blocks(count);
  for (void*& block : blocks) block = std::memset(std::malloc(100), 1, 100);
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) std::free(*block);
  heapprof_mark("trim");
  std::printf("trim %llu\n", private_bytes());
  ::malloc_trim(0);
  std::printf("after %llu\n", private_bytes());
}
