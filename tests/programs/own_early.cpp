// Has an allocator of its own, under mimalloc's names, and threads before anybody could divert it.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

extern "C" {
int early_thread();

char own_area[1 << 16];
std::size_t own_used;
[[gnu::noinline]] void* mi_malloc(std::size_t bytes) {
  void* block = own_area + own_used;
  own_used += bytes;
  return block;
}
[[gnu::noinline]] void mi_free(void*) { asm volatile(""); }
}

int main() {
  for (int i = 0; i < 10; ++i) mi_free(mi_malloc(64));
  void* block = std::malloc(777);
  std::printf("%d %d\n", early_thread(), own_used == 640);
  std::free(block);
}
