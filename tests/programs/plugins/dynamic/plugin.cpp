// A plugin that allocates in a function with the plugin's name. It is compiled as plugin_a and plugin_b, which have
// different sizes; one is often mapped where the other was.
#include <stdlib.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

namespace {
#ifdef PLUGIN_PADDING
// Moves what follows, so that equal offsets are different functions in the two plugins.
[[gnu::used, gnu::noinline]] int padding(int x) {
  asm volatile(".skip 4096, 0x90");
  return x;
}
#endif
}  // namespace

extern "C" [[gnu::noinline]] void* JOIN(PLUGIN_NAME, _inner)(unsigned long size) {
  void* block = malloc(size);
  asm volatile("" : "+r"(block));
  return block;
}

extern "C" void* plugin_allocate(unsigned long size) {
  void* block = JOIN(PLUGIN_NAME, _inner)(size);
  asm volatile("" : "+r"(block));
  return block;
}
