// Contains an allocator with mimalloc's function names. A library's constructor starts a thread, so the functions
// cannot be patched before main.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
int early_thread();

char test_area[1 << 16];
std::size_t test_used;
[[gnu::noinline]] void* mi_malloc(std::size_t bytes) {
  void* block = test_area + test_used;
  test_used += bytes;
  return block;
}
[[gnu::noinline]] void mi_free(void*) { asm volatile(""); }
}

int main() {
  for (int i = 0; i < 10; ++i) mi_free(mi_malloc(64));
  void* block = std::malloc(777);
  std::printf("%d %d\n", early_thread(), test_used == 640);
  std::free(block);
}
