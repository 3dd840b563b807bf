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

#include "preload/base/text.h"
#include "preload/hooks/hook.h"
#include "preload/real/next_symbol.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/recorder.h"
#include "preload/sys/kernel.h"
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

/// The object that held the functions when they were found; begin 0: not known.
constinit unwind::Span g_library{};

// Registrations that went no further, by what takes them back. The first chunk is there when system calls are
// forbidden, the others are mapped when those before them are full.
constexpr std::size_t kLostChunk = 4096;
constexpr std::size_t kLostChunks = 64;
constinit const void* g_first_lost[kLostChunk] = {};
constinit const void** g_lost[kLostChunks] = {g_first_lost};
constinit std::uint64_t g_lost_count = 0;    ///< so far
constinit std::uint64_t g_lost_unnoted = 0;  ///< of these, those for which there was no room

/// The host's function behind a hook; null: none is found.
template <typename Function>
Function* host_function(Index index) noexcept {
  find_unwinding_library();
  return reinterpret_cast<Function*>(__atomic_load_n(&g_functions[index], __ATOMIC_RELAXED));
}

/// Replaces one `old_key` by `new_key`. False: there is none. Null stands for a free slot.
bool replace_lost(const void* old_key, const void* new_key) noexcept {
  for (const void**& place : g_lost) {
    const void** chunk = __atomic_load_n(&place, __ATOMIC_ACQUIRE);
    if (chunk == nullptr) return false;
    for (std::size_t i = 0; i != kLostChunk; ++i) {
      const void* expected = old_key;
      if (__atomic_load_n(&chunk[i], __ATOMIC_RELAXED) == old_key &&
          __atomic_compare_exchange_n(&chunk[i], &expected, new_key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return true;
    }
  }
  return false;
}

/// False: there is no room for more.
bool add_lost_chunk() noexcept {
  constexpr std::size_t kBytes = kLostChunk * sizeof(void*);
  auto** const fresh = static_cast<const void**>(sys::map_private(kBytes));
  if (fresh == nullptr) return false;
  for (const void**& place : g_lost) {
    const void** none = nullptr;
    if (__atomic_compare_exchange_n(&place, &none, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return true;
  }
  sys::unmap(fresh, kBytes);
  return false;
}

void lose(const void* key) noexcept {
  bool noted = replace_lost(nullptr, key);
  while (!noted && add_lost_chunk()) noted = replace_lost(nullptr, key);
  if (!noted) __atomic_fetch_add(&g_lost_unnoted, std::uint64_t{1}, __ATOMIC_RELAXED);
  if (__atomic_fetch_add(&g_lost_count, std::uint64_t{1}, __ATOMIC_RELAXED) != 0) return;
  recorder::note("__register_frame: the program registered unwind tables, and heapprof found no libgcc_s or libunwind "
                 "to pass them to. Exceptions cannot pass through the code that they describe");
  return_here();
}

/// Whether the registration went no further, and so must what takes it back. Once there was no room for a key, that
/// holds for every key that is not noted: a table that libgcc keeps does less harm than the abort.
bool was_lost(const void* key) noexcept {
  if (__atomic_load_n(&g_lost_count, __ATOMIC_RELAXED) == 0 || key == nullptr) return false;
  return replace_lost(key, nullptr) || __atomic_load_n(&g_lost_unnoted, __ATOMIC_RELAXED) != 0;
}

/// The program has used the memory of a lost table again without taking that one back.
void forget_lost(const void* key) noexcept {
  if (__atomic_load_n(&g_lost_count, __ATOMIC_RELAXED) == 0 || key == nullptr) return;
  while (replace_lost(key, nullptr)) {}
}

template <typename... Arguments>
void pass_on(Index index, const void* key, Arguments... arguments) noexcept {
  auto* const function = host_function<void(Arguments...)>(index);
  if (function == nullptr) return lose(key);
  forget_lost(key);
  function(arguments...);
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

/// The object that held the functions, or another one of exactly its place and size.
bool library_is_loaded() noexcept {
  const std::uint64_t begin = __atomic_load_n(&g_library.begin, __ATOMIC_RELAXED);
  const unwind::Span now = unwind::loaded_range(__atomic_load_n(&g_functions[kDeregister], __ATOMIC_RELAXED));
  return begin != 0 && now.begin == begin && now.end == __atomic_load_n(&g_library.end, __ATOMIC_RELAXED);
}

}  // namespace

void find_unwinding_library() noexcept {
  const std::uint64_t generation = unwind::generation();
  void* functions[kFunctions] = {};
  if (generation == __atomic_load_n(&g_generation, __ATOMIC_ACQUIRE)) {
    // Modules that come and go while recording is off do not change the generation.
    if (!unwind::is_unloaded(__atomic_load_n(&g_functions[kDeregister], __ATOMIC_RELAXED))) return;
  }
  using Way = sys::GuardedReader::Way;
  sys::GuardedReader reader(recorder::state() == recorder::State::kOn ? Way::kSystemCall : Way::kFile);
  const UnwinderSearch search = find_unwinder(kNames, functions, kFunctions, reader);
  // The loader's own index of objects is surer than its list: the library that was found is still there.
  if (search == UnwinderSearch::kNone && library_is_loaded()) return;
  for (unsigned i = 0; i < kFunctions; ++i) {
    void* function = functions[i];
    if (search == UnwinderSearch::kUnreadable) {
      function = __atomic_load_n(&g_functions[i], __ATOMIC_RELAXED);
      if (function == nullptr || !unwind::is_unloaded(function)) continue;
      function = nullptr;
    }
    __atomic_store_n(&g_functions[i], function, __ATOMIC_RELAXED);
  }
  if (search == UnwinderSearch::kFound) {
    const unwind::Span library = unwind::loaded_range(functions[kDeregister]);
    __atomic_store_n(&g_library.begin, library.begin, __ATOMIC_RELAXED);
    __atomic_store_n(&g_library.end, library.end, __ATOMIC_RELAXED);
  }
  if (search != UnwinderSearch::kUnreadable)
    __atomic_store_n(&g_generation, search == UnwinderSearch::kFound ? generation : 0, __ATOMIC_RELEASE);
}

void report_lost_registrations() noexcept {
  const std::uint64_t lost = __atomic_load_n(&g_lost_count, __ATOMIC_RELAXED);
  if (lost == 0) return;
  char buffer[128];
  Text text(buffer);
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
