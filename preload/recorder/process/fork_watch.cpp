#include "preload/recorder/process/fork_watch.h"

#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {
constinit ForkPage g_unwatched{1, 0};
}
constinit ForkPage* g_fork_page = &g_unwatched;

bool start_fork_watch() noexcept {
  constexpr std::size_t kPageBytes = 4096;
  auto* page = static_cast<ForkPage*>(sys::map_private(kPageBytes));
  if (page == nullptr || sys::failed(sys::advise(page, kPageBytes, MADV_WIPEONFORK))) return false;
  page->same_process = 1;
  g_fork_page = page;
  return true;
}

void stop_fork_watch() noexcept {
  g_unwatched.fast_path_guard = 0;
  g_fork_page = &g_unwatched;
}

}  // namespace heapprof::recorder
