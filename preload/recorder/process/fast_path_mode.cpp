#include "preload/recorder/process/fast_path_mode.h"

#include <initializer_list>

namespace heapprof::recorder {

constinit const char kNoThread = 0;
constinit const char kMultiThreaded = 0;
constinit const char* g_single_threaded = &kNoThread;
constinit const char kPythonFrames = 0;
constinit const char* g_allocation_mode = &kNoThread;
constinit const char* g_free_mode = &kNoThread;

namespace {

bool replace(const char** pointer, const char* from, const char* to) noexcept {
  return __atomic_compare_exchange_n(pointer, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/// Replaces any mode but kPythonFrames.
void set_mode(const char** pointer, const char* mode) noexcept {
  const char* before;
  do before = __atomic_load_n(pointer, __ATOMIC_RELAXED);
  while (before != &kPythonFrames && !replace(pointer, before, mode));
}

}  // namespace

// The modes change first: whoever finds g_single_threaded changed relies on them, and a signal handler may leave
// these functions by longjmp, or end the thread.

void set_multi_threaded() noexcept {
  set_mode(&g_allocation_mode, &kMultiThreaded);
  set_mode(&g_free_mode, &kMultiThreaded);
  __atomic_store_n(&g_single_threaded, &kMultiThreaded, __ATOMIC_RELEASE);
}

void note_attaching_thread(const char* libc_variable) noexcept {
  if (libc_variable != nullptr) {
    // They fail if another thread has attached. Of several, only that one is the first whose last exchange succeeds,
    // and the others set the modes again.
    replace(&g_allocation_mode, &kNoThread, libc_variable);
    replace(&g_free_mode, &kNoThread, libc_variable);
    if (replace(&g_single_threaded, &kNoThread, libc_variable)) return;
  }
  set_multi_threaded();
}

bool forget_attached_threads() noexcept {
  const bool used_owners = g_single_threaded == &kMultiThreaded || g_allocation_mode == &kMultiThreaded;
  set_mode(&g_allocation_mode, &kNoThread);
  set_mode(&g_free_mode, &kNoThread);
  g_single_threaded = &kNoThread;
  return used_owners;
}

void watch_frees() noexcept { __atomic_store_n(&g_free_mode, &kPythonFrames, __ATOMIC_RELAXED); }

}  // namespace heapprof::recorder
