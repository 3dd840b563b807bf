#include "preload/recorder/fork_watch.h"

#include "preload/sys/kernel.h"

namespace heapprof::recorder {

namespace {
constinit std::uint32_t g_always_here = 1;
}
constinit const std::uint32_t* g_same_process = &g_always_here;

bool watch_for_fork() noexcept {
  constexpr std::size_t kPage = 4096;
  auto* page = static_cast<std::uint32_t*>(sys::map_private(kPage));
  if (page == nullptr || sys::failed(sys::advise(page, kPage, MADV_WIPEONFORK))) return false;
  *page = 1;
  g_same_process = page;
  return true;
}

void watch_for_no_fork() noexcept { g_same_process = &g_always_here; }

}  // namespace heapprof::recorder
