// __register_frame and friends: how a JIT announces unwind tables of code that is in no file. The unwinder
// is told, and the call goes on to the host's own unwinding library, libgcc_s or LLVM's libunwind, which may
// be loaded later and privately; it is looked for at each call until it is found.
//
// Three families (gcc, libgcc/unwind-dw2-fde.c): `begin` is a sequence of .eh_frame entries; or, for
// ..._info, the same with memory for the library's own record; or, for ..._table, an array of such
// sequences that ends with null.
#include <cstddef>

#include "preload/hooks/hook.h"
#include "preload/hooks/next_symbol.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::hooks {

namespace {

template <typename Function>
Function* find(Function*& known, const char* name) noexcept {
  Function* function = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (function == nullptr) {
    function = reinterpret_cast<Function*>(unwinder_symbol(name));
    __atomic_store_n(&known, function, __ATOMIC_RELAXED);
  }
  return function;
}

void registered_table(void* const* begins) noexcept {
  for (; *begins != nullptr; ++begins) unwind::register_frame(*begins);
}

}  // namespace

HEAPPROF_HOOK(void, __register_frame, (void* begin)) {
  static constinit void (*known)(void*) = nullptr;
  unwind::register_frame(begin);
  if (auto* next = find(known, "__register_frame")) next(begin);
}

HEAPPROF_HOOK(void, __deregister_frame, (void* begin)) {
  static constinit void (*known)(void*) = nullptr;
  unwind::deregister_frame(begin);
  if (auto* next = find(known, "__deregister_frame")) next(begin);
}

HEAPPROF_HOOK(void, __register_frame_info, (const void* begin, void* object)) {
  static constinit void (*known)(const void*, void*) = nullptr;
  unwind::register_frame(begin);
  if (auto* next = find(known, "__register_frame_info")) next(begin, object);
}

HEAPPROF_HOOK(void, __register_frame_info_bases, (const void* begin, void* object, void* text, void* data)) {
  static constinit void (*known)(const void*, void*, void*, void*) = nullptr;
  unwind::register_frame(begin);
  if (auto* next = find(known, "__register_frame_info_bases")) next(begin, object, text, data);
}

HEAPPROF_HOOK(void, __register_frame_table, (void* begins)) {
  static constinit void (*known)(void*) = nullptr;
  registered_table(static_cast<void* const*>(begins));
  if (auto* next = find(known, "__register_frame_table")) next(begins);
}

HEAPPROF_HOOK(void, __register_frame_info_table, (void* begins, void* object)) {
  static constinit void (*known)(void*, void*) = nullptr;
  registered_table(static_cast<void* const*>(begins));
  if (auto* next = find(known, "__register_frame_info_table")) next(begins, object);
}

HEAPPROF_HOOK(void, __register_frame_info_table_bases, (void* begins, void* object, void* text, void* data)) {
  static constinit void (*known)(void*, void*, void*, void*) = nullptr;
  registered_table(static_cast<void* const*>(begins));
  if (auto* next = find(known, "__register_frame_info_table_bases")) next(begins, object, text, data);
}

/// Returns the `object` that was given at registration.
HEAPPROF_HOOK(void*, __deregister_frame_info, (const void* begin)) {
  static constinit void* (*known)(const void*) = nullptr;
  unwind::deregister_frame(begin);
  auto* next = find(known, "__deregister_frame_info");
  return next != nullptr ? next(begin) : nullptr;
}

HEAPPROF_HOOK(void*, __deregister_frame_info_bases, (const void* begin)) {
  static constinit void* (*known)(const void*) = nullptr;
  unwind::deregister_frame(begin);
  auto* next = find(known, "__deregister_frame_info_bases");
  return next != nullptr ? next(begin) : nullptr;
}

}  // namespace heapprof::hooks
