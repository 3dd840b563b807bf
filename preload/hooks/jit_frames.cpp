// __register_frame and friends: how a JIT announces unwind tables of code that is in no file. The unwinder
// is told, and the call goes on to the host's own unwinding library, libgcc_s or LLVM's libunwind, which may
// be loaded later and privately, and may be unloaded.
//
// So the library is searched for at the start, at calls after the module generation has changed, and before the host
// forbids system calls, without which the loader's list cannot be read. A registration for which no library is found
// goes no further. Its deregistration must not either: libgcc aborts when it is given a table that it does not know.
//
// Three families (gcc, libgcc/unwind-dw2-fde.c): `begin` is a sequence of .eh_frame entries; or, for
// ..._info, the same with memory for the library's own record; or, for ..._table, an array of such
// sequences that ends with null.
#include "preload/hooks/jit_frames.h"

#include <cstddef>
#include <cstdint>

#include "preload/hooks/hook.h"
#include "preload/hooks/next_symbol.h"
#include "preload/recorder/recorder.h"
#include "preload/recorder/text.h"
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
constinit std::uint64_t g_generation = 0;  ///< of the modules, when a library was last found; 0: none is

constexpr std::size_t kMaxLost = 4096;
constinit const void* g_lost[kMaxLost] = {};  ///< registrations that went no further, by what takes them back
constinit std::uint64_t g_lost_count = 0;     ///< so far

/// The host's function behind a hook; null: none is found.
template <typename Function>
Function* host_function(Index index) noexcept {
  find_unwinding_library();
  return reinterpret_cast<Function*>(__atomic_load_n(&g_functions[index], __ATOMIC_RELAXED));
}

void lose(const void* key) noexcept {
  for (const void*& slot : g_lost) {
    const void* none = nullptr;
    if (__atomic_compare_exchange_n(&slot, &none, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
  }
  if (__atomic_fetch_add(&g_lost_count, std::uint64_t{1}, __ATOMIC_RELAXED) != 0) return;
  recorder::note("__register_frame: the program registered unwind tables, and heapprof found no libgcc_s or libunwind "
                 "to pass them to. Exceptions cannot pass through the code that they describe");
  return_here();
}

/// Whether the registration went no further, and so must what takes it back.
bool was_lost(const void* key) noexcept {
  if (__atomic_load_n(&g_lost_count, __ATOMIC_RELAXED) == 0) return false;
  for (const void*& slot : g_lost) {
    const void* expected = key;
    if (__atomic_load_n(&slot, __ATOMIC_RELAXED) == key &&
        __atomic_compare_exchange_n(&slot, &expected, nullptr, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return true;
  }
  return false;
}

template <typename... Arguments>
void pass_on(Index index, const void* key, Arguments... arguments) noexcept {
  if (auto* const function = host_function<void(Arguments...)>(index)) function(arguments...);
  else lose(key);
}

void registered_table(const void* key) noexcept {
  for (auto begins = static_cast<void* const*>(key); *begins != nullptr; ++begins)
    unwind::register_frame(*begins, key);
}

/// Returns the `object` that was given at registration.
void* take_back(Index index, const void* key) noexcept {
  unwind::deregister_frame(key);
  if (was_lost(key)) return nullptr;
  auto* const function = host_function<void*(const void*)>(index);
  return function == nullptr ? nullptr : function(key);
}

}  // namespace

void find_unwinding_library() noexcept {
  const std::uint64_t generation = unwind::generation();
  void* functions[kFunctions] = {};
  if (generation == __atomic_load_n(&g_generation, __ATOMIC_ACQUIRE)) {
    // Modules that come and go while recording is off do not change the generation.
    if (!unwind::is_unloaded(__atomic_load_n(&g_functions[kDeregister], __ATOMIC_RELAXED))) return;
  }
  const UnwinderSearch search = find_unwinder(kNames, functions, kFunctions);
  for (unsigned i = 0; i < kFunctions; ++i) {
    void* function = functions[i];
    if (search == UnwinderSearch::kUnreadable) {
      function = __atomic_load_n(&g_functions[i], __ATOMIC_RELAXED);
      if (function == nullptr || !unwind::is_unloaded(function)) continue;
      function = nullptr;
    }
    __atomic_store_n(&g_functions[i], function, __ATOMIC_RELAXED);
  }
  if (search != UnwinderSearch::kUnreadable)
    __atomic_store_n(&g_generation, search == UnwinderSearch::kFound ? generation : 0, __ATOMIC_RELEASE);
}

void report_lost_registrations() noexcept {
  const std::uint64_t lost = __atomic_load_n(&g_lost_count, __ATOMIC_RELAXED);
  if (lost == 0) return;
  char buffer[128];
  recorder::Text text(buffer);
  recorder::note(text.add("__register_frame: ").number(lost).add(" registrations were not passed on").c_str());
}

HEAPPROF_HOOK(void, __register_frame, (void* begin)) {
  unwind::register_frame(begin, begin);
  pass_on(kRegister, begin, begin);
}

HEAPPROF_HOOK(void, __register_frame_info, (const void* begin, void* object)) {
  unwind::register_frame(begin, begin);
  pass_on(kRegisterInfo, begin, begin, object);
}

HEAPPROF_HOOK(void, __register_frame_info_bases, (const void* begin, void* object, void* text, void* data)) {
  unwind::register_frame(begin, begin);
  pass_on(kRegisterInfoBases, begin, begin, object, text, data);
}

HEAPPROF_HOOK(void, __register_frame_table, (void* begins)) {
  registered_table(begins);
  pass_on(kRegisterTable, begins, begins);
}

HEAPPROF_HOOK(void, __register_frame_info_table, (void* begins, void* object)) {
  registered_table(begins);
  pass_on(kRegisterInfoTable, begins, begins, object);
}

HEAPPROF_HOOK(void, __register_frame_info_table_bases, (void* begins, void* object, void* text, void* data)) {
  registered_table(begins);
  pass_on(kRegisterInfoTableBases, begins, begins, object, text, data);
}

// A table is taken back under the pointer it was given as.
HEAPPROF_HOOK(void, __deregister_frame, (void* begin)) {
  unwind::deregister_frame(begin);
  if (was_lost(begin)) return;
  if (auto* const function = host_function<void(void*)>(kDeregister)) function(begin);
}

HEAPPROF_HOOK(void*, __deregister_frame_info, (const void* begin)) { return take_back(kDeregisterInfo, begin); }

HEAPPROF_HOOK(void*, __deregister_frame_info_bases, (const void* begin)) {
  return take_back(kDeregisterInfoBases, begin);
}

}  // namespace heapprof::hooks
