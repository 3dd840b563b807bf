// Hooks of __register_frame and related functions, by which a JIT compiler registers unwind tables of generated code.
// Each hook passes the tables to the recorder's unwinder and forwards the call to the host's unwinding library.
//
// That library (libgcc_s, or LLVM's libunwind) may be loaded late and privately, and may be unloaded. The hooks
// search for it in the library's constructor, before the host forbids system calls, and at calls after the module
// generation has changed. When none is found, the registration is dropped (dropped_registrations.h).
//
// The functions' arguments (gcc, libgcc/unwind-dw2-fde.c):
//   __register_frame       a sequence of .eh_frame entries
//   names with _info       also memory for libgcc's record
//   names with _table      a null-terminated array of such sequences instead of one
#include "preload/hooks/jit_frames.h"

#include <cstddef>
#include <cstdint>

#include "preload/hooks/dropped_registrations.h"
#include "preload/hooks/hook.h"
#include "preload/real/unwinding_library.h"
#include "preload/recorder/lifecycle.h"
#include "preload/sys/guarded_read.h"
#include "preload/unwind/modules.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::hooks {

namespace {

enum Index : unsigned {
  kRegister,
  kRegisterInfo,
  kRegisterInfoBases,
  kRegisterTable,
  kRegisterInfoTable,
  kRegisterInfoTableBases,
  kDeregister,
  kDeregisterInfo,
  kDeregisterInfoBases,
  kFunctions
};
constexpr const char* kNames[kFunctions] = {
    "__register_frame",       "__register_frame_info",       "__register_frame_info_bases",
    "__register_frame_table", "__register_frame_info_table", "__register_frame_info_table_bases",
    "__deregister_frame",     "__deregister_frame_info",     "__deregister_frame_info_bases"};

constinit void* g_functions[kFunctions] = {};
constinit std::uint64_t g_generation = 0;  ///< module generation at the last successful search; 0: none was found

/// Address range of the library that defines the functions; begin 0: unknown.
constinit unwind::Span g_library{};

/// The function of the host's unwinding library; null when no library is found.
template <typename Function>
Function* host_function(Index index) noexcept {
  find_unwinding_library();
  return reinterpret_cast<Function*>(__atomic_load_n(&g_functions[index], __ATOMIC_RELAXED));
}

template <typename... Arguments>
void forward_registration(Index index, const void* table, Arguments... arguments) noexcept {
  auto* const function = host_function<void(Arguments...)>(index);
  if (function == nullptr) return add_dropped_registration(table);
  forget_dropped_registration(table);
  function(arguments...);
}

void register_each(const void* table) noexcept {
  for (auto begins = static_cast<void* const*>(table); *begins != nullptr; ++begins)
    unwind::register_frame(*begins, table);
}

/// Returns the `object` that was passed at registration.
void* forward_deregistration(Index index, const void* table) noexcept {
  unwind::deregister_frame(table);
  if (remove_dropped_registration(table)) return nullptr;
  auto* const function = host_function<void*(const void*)>(index);
  return function == nullptr ? nullptr : function(table);
}

/// Whether an object is still loaded in the library's address range.
bool library_is_loaded() noexcept {
  const std::uint64_t begin = __atomic_load_n(&g_library.begin, __ATOMIC_RELAXED);
  const unwind::Span now = unwind::loaded_range(__atomic_load_n(&g_functions[kDeregister], __ATOMIC_RELAXED));
  return begin != 0 && now.begin == begin && now.end == __atomic_load_n(&g_library.end, __ATOMIC_RELAXED);
}

}  // namespace

void find_unwinding_library(bool only_thread) noexcept {
  const std::uint64_t generation = unwind::generation();
  void* functions[kFunctions] = {};
  if (generation == __atomic_load_n(&g_generation, __ATOMIC_ACQUIRE)) {
    // While recording is off, loading and unloading modules does not change the generation.
    if (!unwind::is_unloaded(__atomic_load_n(&g_functions[kDeregister], __ATOMIC_RELAXED))) return;
  }
  using Method = sys::GuardedReader::Method;
  sys::GuardedReader reader(recorder::state() == recorder::State::kOn ? Method::kSystemCall : Method::kFile);
  if (only_thread) reader.read_directly();
  const real::LibrarySearch search = real::find_unwinding_functions(kNames, functions, kFunctions, reader);
  // The loader's index of objects (loaded_range) is more reliable than its list. If it contains the library, the
  // library is still loaded.
  if (search == real::LibrarySearch::kNone && library_is_loaded()) return;
  for (unsigned i = 0; i < kFunctions; ++i) {
    void* function = functions[i];
    if (search == real::LibrarySearch::kUnreadable) {
      function = __atomic_load_n(&g_functions[i], __ATOMIC_RELAXED);
      if (function == nullptr || !unwind::is_unloaded(function)) continue;
      function = nullptr;
    }
    __atomic_store_n(&g_functions[i], function, __ATOMIC_RELAXED);
  }
  if (search == real::LibrarySearch::kFound) {
    const unwind::Span library = unwind::loaded_range(functions[kDeregister]);
    __atomic_store_n(&g_library.begin, library.begin, __ATOMIC_RELAXED);
    __atomic_store_n(&g_library.end, library.end, __ATOMIC_RELAXED);
  }
  if (search != real::LibrarySearch::kUnreadable)
    __atomic_store_n(&g_generation, search == real::LibrarySearch::kFound ? generation : 0, __ATOMIC_RELEASE);
}

HEAPPROF_HOOK(void, __register_frame, (void* begin)) {
  unwind::register_frame(begin, begin);
  forward_registration(kRegister, begin, begin);
}

HEAPPROF_HOOK(void, __register_frame_info, (const void* begin, void* object)) {
  unwind::register_frame(begin, begin);
  forward_registration(kRegisterInfo, begin, begin, object);
}

HEAPPROF_HOOK(void, __register_frame_info_bases, (const void* begin, void* object, void* text, void* data)) {
  unwind::register_frame(begin, begin);
  forward_registration(kRegisterInfoBases, begin, begin, object, text, data);
}

HEAPPROF_HOOK(void, __register_frame_table, (void* begins)) {
  register_each(begins);
  forward_registration(kRegisterTable, begins, begins);
}

HEAPPROF_HOOK(void, __register_frame_info_table, (void* begins, void* object)) {
  register_each(begins);
  forward_registration(kRegisterInfoTable, begins, begins, object);
}

HEAPPROF_HOOK(void, __register_frame_info_table_bases, (void* begins, void* object, void* text, void* data)) {
  register_each(begins);
  forward_registration(kRegisterInfoTableBases, begins, begins, object, text, data);
}

// A table is deregistered by the pointer that it was registered with.
HEAPPROF_HOOK(void, __deregister_frame, (void* begin)) {
  unwind::deregister_frame(begin);
  if (remove_dropped_registration(begin)) return;
  if (auto* const function = host_function<void(void*)>(kDeregister)) function(begin);
}

HEAPPROF_HOOK(void*, __deregister_frame_info, (const void* begin)) {
  return forward_deregistration(kDeregisterInfo, begin);
}

HEAPPROF_HOOK(void*, __deregister_frame_info_bases, (const void* begin)) {
  return forward_deregistration(kDeregisterInfoBases, begin);
}

}  // namespace heapprof::hooks
