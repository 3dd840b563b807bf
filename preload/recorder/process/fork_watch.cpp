#include "preload/recorder/process/fork_watch.h"

#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {
constinit ForkPage g_unwatched{1, 0};
}
constinit ForkPage* g_fork_page = &g_unwatched;

// Another thread of a forked child that loads the new pointer must find the page's contents, and the state of the
// recording that was set before. So the pointer is stored with release.

bool start_fork_watch() noexcept {
  constexpr std::size_t kPageBytes = 4096;
  auto* page = static_cast<ForkPage*>(sys::map_private(kPageBytes));
  if (page == nullptr || sys::failed(sys::advise(page, kPageBytes, MADV_WIPEONFORK))) return false;
  page->same_process = 1;
  __atomic_store_n(&g_fork_page, page, __ATOMIC_RELEASE);
  return true;
}

void stop_fork_watch() noexcept {
  g_unwatched.fast_path_guard = 0;
  __atomic_store_n(&g_fork_page, &g_unwatched, __ATOMIC_RELEASE);
}

}  // namespace heapprof::recorder
