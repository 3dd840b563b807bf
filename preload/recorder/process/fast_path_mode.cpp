#include "preload/recorder/process/fast_path_mode.h"

#include <initializer_list>

namespace heapprof::recorder {

constinit const char kMultiThreaded = 0;
constinit const char* g_single_threaded = &kMultiThreaded;
constinit const char kPythonFrames = 0;
constinit const char* g_allocation_mode = &kMultiThreaded;
constinit const char* g_free_mode = &kMultiThreaded;

void set_single_threaded(const char* source) noexcept {
  __atomic_store_n(&g_single_threaded, source, __ATOMIC_RELAXED);
  for (const char** const each : {&g_allocation_mode, &g_free_mode}) {
    const char* mode = __atomic_load_n(each, __ATOMIC_RELAXED);
    while (mode != &kPythonFrames &&
           !__atomic_compare_exchange_n(each, &mode, source, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
  }
}

void set_multi_threaded() noexcept { set_single_threaded(&kMultiThreaded); }

void watch_frees() noexcept { __atomic_store_n(&g_free_mode, &kPythonFrames, __ATOMIC_RELAXED); }

}  // namespace heapprof::recorder
