// Loads plugins by a bare name that only this library's RUNPATH can resolve. A recorder that wraps dlopen becomes its
// caller, and the plugin is not found any more.
#include <dlfcn.h>

extern "C" void* open_plugin(const char* name) { return dlopen(name, RTLD_NOW | RTLD_LOCAL); }
