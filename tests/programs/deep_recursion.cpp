// Recurses to DEPTH and allocates a block there, COUNT times.
//
// usage: deep_recursion DEPTH COUNT
#include <stdlib.h>

namespace {
void* volatile kept;
[[gnu::noinline]] void recurse(unsigned long depth) {
  if (depth == 0) kept = malloc(333);
  else recurse(depth - 1);
  asm volatile("" ::: "memory");
}
}  // namespace

int main(int argc, char** argv) {
  const unsigned long depth = argc > 1 ? strtoul(argv[1], nullptr, 0) : 100;
  const unsigned long count = argc > 2 ? strtoul(argv[2], nullptr, 0) : 10;
  for (unsigned long i = 0; i < count; ++i) recurse(depth);
  return 0;
}
