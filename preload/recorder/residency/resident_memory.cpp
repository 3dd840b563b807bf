#include "preload/recorder/residency/resident_memory.h"

#include <sys/auxv.h>

#include "preload/base/text.h"
#include "preload/recorder/thread/thread_state.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_file.h"

namespace heapprof::recorder {

namespace {

constexpr const char* kPath = "/proc/self/statm";

constinit sys::ProcFile g_statm;
/// A thread opens the file again. If it dies meanwhile, nobody does that any more.
constinit bool g_reopening = false;

/// Opens the file again if the host has closed it. Not in a child that shares our memory, whose descriptors are
/// others under the same numbers.
int statm_descriptor() noexcept {
  const int descriptor = g_statm.descriptor();
  if (descriptor >= 0 || shares_memory_with_parent() || __atomic_exchange_n(&g_reopening, true, __ATOMIC_ACQUIRE))
    return descriptor;
  g_statm.open(kPath);
  __atomic_store_n(&g_reopening, false, __ATOMIC_RELEASE);
  return g_statm.descriptor();
}

}  // namespace

void open_resident_memory() noexcept {
  g_statm.open(kPath);
  g_reopening = false;
}

void close_resident_memory() noexcept { g_statm.close(); }

ResidentMemory resident_memory() noexcept {
  const int descriptor = statm_descriptor();
  if (descriptor < 0) return {};
  char text[128];
  const long length = sys::pread(descriptor, text, sizeof text - 1, 0);
  if (length <= 0) return {};
  text[length] = '\0';
  const char* at = text;
  std::uint64_t total = 0, resident = 0, shared = 0;  // pages (proc(5))
  if (!parse_number(at, total) || *at++ != ' ' || !parse_number(at, resident) || *at++ != ' ' ||
      !parse_number(at, shared))
    return {};
  const std::uint64_t page = getauxval(AT_PAGESZ);
  return {resident * page, shared * page};
}

}  // namespace heapprof::recorder
