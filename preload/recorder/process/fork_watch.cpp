#include "preload/recorder/process/fork_watch.h"

#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {
constinit ForkPage g_always_here{1, 0};
}
constinit ForkPage* g_fork_page = &g_always_here;

bool watch_for_fork() noexcept {
  constexpr std::size_t kPage = 4096;
  auto* page = static_cast<ForkPage*>(sys::map_private(kPage));
  if (page == nullptr || sys::failed(sys::advise(page, kPage, MADV_WIPEONFORK))) return false;
  page->same_process = 1;
  g_fork_page = page;
  return true;
}

void watch_for_no_fork() noexcept {
  g_always_here.gate = 0;
  g_fork_page = &g_always_here;
}

}  // namespace heapprof::recorder
