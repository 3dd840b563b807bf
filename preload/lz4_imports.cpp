// Symbols that Debian's liblz4.a needs, in functions that the recorder never calls.
//
// LZ4_createStream and related functions allocate. They share an object file with the functions that the recorder
// uses, so the linker keeps them. Without --wrap (preload/meson.build), they would call the exported malloc hook.
#include <cstddef>
#include <cstdint>

extern "C" {

void* __wrap_malloc(std::size_t) noexcept { return nullptr; }
void* __wrap_calloc(std::size_t, std::size_t) noexcept { return nullptr; }
void __wrap_free(void*) noexcept {}

#ifdef __aarch64__
// The stack protector's value in LZ4's functions. Usually it is a variable of ld.so, which the recorder must not
// need. This constant is no secret, but still detects an overflow.
std::uintptr_t __stack_chk_guard = 0x00ff0a0d5ca1ab1e;
#endif

}  // extern "C"
