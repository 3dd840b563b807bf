// What Debian's liblz4.a asks for and the recorder does not call.
//
// LZ4_createStream and its kin allocate. They share an object file with the functions that the recorder uses, so the
// linker keeps them. Without --wrap (preload/meson.build) their malloc would be the exported hook.
#include <cstddef>
#include <cstdint>

extern "C" {

void* __wrap_malloc(std::size_t) noexcept { return nullptr; }
void* __wrap_calloc(std::size_t, std::size_t) noexcept { return nullptr; }
void __wrap_free(void*) noexcept {}

#ifdef __aarch64__
// What LZ4's functions compare their stack frames with. The usual one is a variable of ld.so, which the recorder must
// not need; this one is no secret, and still detects an overflow.
std::uintptr_t __stack_chk_guard = 0x00ff0a0d5ca1ab1e;
#endif

}  // extern "C"
