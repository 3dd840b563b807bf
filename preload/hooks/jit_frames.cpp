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

/// The host's function behind a hook, as soon as there is one.
template <typename Result, typename... Parameters>
class Next {
 public:
  constexpr explicit Next(const char* name) noexcept : name_(name) {}

  Result operator()(Parameters... arguments) noexcept {
    Function* function = __atomic_load_n(&function_, __ATOMIC_RELAXED);
    if (function == nullptr) {
      function = reinterpret_cast<Function*>(unwinder_symbol(name_));
      if (function == nullptr) return Result();
      __atomic_store_n(&function_, function, __ATOMIC_RELAXED);
    }
    return function(arguments...);
  }

 private:
  using Function = Result(Parameters...);
  const char* name_;
  Function* function_ = nullptr;
};

constinit Next<void, void*> g_register_frame("__register_frame");
constinit Next<void, const void*, void*> g_register_frame_info("__register_frame_info");
constinit Next<void, const void*, void*, void*, void*> g_register_frame_info_bases("__register_frame_info_bases");
constinit Next<void, void*> g_register_frame_table("__register_frame_table");
constinit Next<void, void*, void*> g_register_frame_info_table("__register_frame_info_table");
constinit Next<void, void*, void*, void*, void*> g_register_frame_info_table_bases(
    "__register_frame_info_table_bases");
constinit Next<void, void*> g_deregister_frame("__deregister_frame");
constinit Next<void*, const void*> g_deregister_frame_info("__deregister_frame_info");
constinit Next<void*, const void*> g_deregister_frame_info_bases("__deregister_frame_info_bases");

void registered_table(void* const* begins) noexcept {
  for (; *begins != nullptr; ++begins) unwind::register_frame(*begins);
}

}  // namespace

HEAPPROF_HOOK(void, __register_frame, (void* begin)) {
  unwind::register_frame(begin);
  g_register_frame(begin);
}

HEAPPROF_HOOK(void, __register_frame_info, (const void* begin, void* object)) {
  unwind::register_frame(begin);
  g_register_frame_info(begin, object);
}

HEAPPROF_HOOK(void, __register_frame_info_bases, (const void* begin, void* object, void* text, void* data)) {
  unwind::register_frame(begin);
  g_register_frame_info_bases(begin, object, text, data);
}

HEAPPROF_HOOK(void, __register_frame_table, (void* begins)) {
  registered_table(static_cast<void* const*>(begins));
  g_register_frame_table(begins);
}

HEAPPROF_HOOK(void, __register_frame_info_table, (void* begins, void* object)) {
  registered_table(static_cast<void* const*>(begins));
  g_register_frame_info_table(begins, object);
}

HEAPPROF_HOOK(void, __register_frame_info_table_bases, (void* begins, void* object, void* text, void* data)) {
  registered_table(static_cast<void* const*>(begins));
  g_register_frame_info_table_bases(begins, object, text, data);
}

// A table is taken back under the pointer it was given as.
HEAPPROF_HOOK(void, __deregister_frame, (void* begin)) {
  unwind::deregister_frame(begin);
  g_deregister_frame(begin);
}

/// Returns the `object` that was given at registration.
HEAPPROF_HOOK(void*, __deregister_frame_info, (const void* begin)) {
  unwind::deregister_frame(begin);
  return g_deregister_frame_info(begin);
}

HEAPPROF_HOOK(void*, __deregister_frame_info_bases, (const void* begin)) {
  unwind::deregister_frame(begin);
  return g_deregister_frame_info_bases(begin);
}

}  // namespace heapprof::hooks
