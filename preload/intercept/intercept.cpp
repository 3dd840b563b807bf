// Objects that are loaded with the program are examined in the library's constructor, while there is one thread.
// Objects that are loaded later are examined at the loader's own allocations, after the object has been mapped and
// before any of its code runs; the loading thread scans, and holds the loader's lock. An object that is found at
// another time while there are several threads is not patched, because a thread may be executing its functions.
//
// All objects are examined except the loader, the vDSO and this library. Real functions are patched too, because some
// callers bypass the hooks: a library that defines malloc and is linked with -Bsymbolic, and libraries that are
// loaded with RTLD_DEEPBIND, for which libc's malloc is found first. libc is patched only if an object can load
// others, and only at the start, because threads may be in malloc later. The libc of another namespace (dlmopen) is
// examined as other objects are; other namespaces are visible from glibc 2.35 on (r_debug_extended).
#include "preload/intercept/intercept.h"

#include <elf.h>
#include <link.h>

#include "preload/intercept/loaded_objects.h"
#include "preload/intercept/object_examiner.h"
#include "preload/intercept/patched_call.h"
#include "preload/intercept/scan_lock.h"
#include "preload/recorder/lifecycle.h"
#include "preload/recorder/process/settings.h"
#include "preload/recorder/recorder.h"
#include "preload/sys/guarded_read.h"
#include "preload/sys/kernel.h"
#include "preload/sys/loader.h"
#include "preload/unwind/unwinder.h"

namespace heapprof::intercept {

namespace {

constexpr std::size_t kMaxNamespaces = 16;  // glibc's limit (ldsodefs.h, DL_NNS)

struct Memory {
  LoadedObjects objects[kMaxNamespaces];  ///< of each namespace, in the order of the loader's lists
  LoadedObjects::Scratch scratch;
  ObjectExaminer examiner;
};
constinit Memory* g_memory = nullptr;

/// The loader's list of the next namespace; null: there is none, or glibc is older than 2.35. Lists are never
/// removed.
const r_debug* next_namespace(const r_debug* list) noexcept {
  if (sys::loader()->r_version < 2) return nullptr;
  return reinterpret_cast<const r_debug*>(
      __atomic_load_n(&reinterpret_cast<const r_debug_extended*>(list)->r_next, __ATOMIC_ACQUIRE));
}

bool is_main(const link_map& map) noexcept { return map.l_addr == sys::loader()->r_map->l_addr; }

/// Examines the objects that are new on the lists of all namespaces. In the state RT_ADD, the loader is adding to a
/// list: a new object is mapped, and none of its code has run. That does not hold if a scan was missed, because the
/// object may have been loaded before. `only_thread`: the process has no other thread, for certain.
void scan(bool only_thread) noexcept {
  if (!begin_scan()) return note_missed_scan();
  Memory& memory = *g_memory;
  ObjectExaminer& examiner = memory.examiner;
  const bool missed = take_missed_scan();
  const r_debug* const first_list = sys::loader();
  const std::uint64_t loader = first_list->r_ldbase;  // AT_BASE is 0 if the loader itself was executed
  const std::uint64_t vdso = sys::vdso_address();
  sys::GuardedReader reader;
  if (only_thread) reader.read_directly();
  link_map libc{};
  bool complete = true;
  // Asked once: if there is no other thread, nobody starts one during the scan. 0: unknown.
  std::uint32_t threads = only_thread ? 1 : 0;
  const auto is_only_thread = [&]() noexcept {
    if (threads == 0) threads = sys::thread_count();
    return threads == 1;
  };
  LoadedObjects* objects = memory.objects;
  for (const r_debug* list = first_list; list != nullptr && objects != memory.objects + kMaxNamespaces;
       list = next_namespace(list), ++objects) {
    complete &= objects->update(&list->r_map, reader, memory.scratch, missed, [&](const link_map& map) {
      if (map.l_ld == _DYNAMIC || map.l_addr == loader || (vdso != 0 && map.l_addr == vdso) || map.l_ld == nullptr)
        return;
      if (!examiner.find_path(map, reader)) return;
      const bool no_thread_inside =
          (list->r_state == r_debug::RT_ADD && !missed && !objects->overflowed() && !a_scan_was_missed()) ||
          is_only_thread();
      if (!examiner.is_libc()) examiner.examine(map, reader, is_main(map), Role::kOther, no_thread_inside);
      else if (list != first_list) examiner.examine(map, reader, false, Role::kOtherNamespaceLibc, no_thread_inside);
      else libc = map;
    });
  }
  // libc is examined last: whether it is patched depends on whether another object calls dlopen.
  if (libc.l_ld != nullptr && examiner.object_loads_others() && examiner.find_path(libc, reader))
    examiner.examine(libc, reader, false, Role::kLibc, is_only_thread());
  reader.close();
  examiner.release_scratch();
  if (!complete) note_missed_scan();
  end_scan();
}

/// Called when the loader allocates or frees.
void loader_event() noexcept {
  if (recorder::state() != recorder::State::kOn || __atomic_load_n(&sys::g_forbidden, __ATOMIC_RELAXED))
    return note_missed_scan();
  scan(false);
}

}  // namespace

bool start(bool only_thread) noexcept {
  if (recorder::state() != recorder::State::kOn || !recorder::g_settings.embedded_allocators ||
      sys::loader() == nullptr)
    return false;
  g_memory = static_cast<Memory*>(sys::map_private(sizeof(Memory)));
  if (g_memory == nullptr) return false;
  unwind::hide_frame(ProgramCounter{reinterpret_cast<std::uint64_t>(heapprof_intercept_returned)});
  scan(only_thread);
  recorder::watch_loader(loader_event);
  return g_memory->examiner.program_free_is_patched();
}

}  // namespace heapprof::intercept
