// A library that tests load and unload. It is built twice (PLUGIN is 1 or 2) with different frames, so that the rules
// of one are wrong in the other. It is lazily bound: ifunc_target is resolved during a call, by a resolver that
// captures a stack while ld.so's code is on it.
#include <alloca.h>

extern "C" {

void (*plugin_hook)();

__attribute__((noinline)) int plugin_inner(int depth) {
#if PLUGIN == 1
  volatile char local[40];
  local[depth] = 1;
#else
  volatile char local[400];
  auto* room = static_cast<volatile char*>(alloca(16 + depth * 50));
  local[depth] = 1;
  room[1] = local[depth];
#endif
  if (depth == 0) plugin_hook();
  else plugin_inner(depth - 1);
  plugin_hook();
  return local[depth];
}

int plugin_run(void (*hook)()) {
  plugin_hook = hook;
  const int result = plugin_inner(5);
  plugin_hook();
  return result;
}

static int resolved() { return 7; }

static int (*resolve())() {
  if (plugin_hook != nullptr) plugin_hook();
  return resolved;
}

int ifunc_target() __attribute__((ifunc("resolve")));

int plugin_lazy(void (*hook)()) {
  plugin_hook = hook;
  const int result = ifunc_target();
  plugin_hook();
  return result;
}

}  // extern "C"
