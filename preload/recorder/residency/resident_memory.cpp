#include "preload/recorder/residency/resident_memory.h"

#include <sys/auxv.h>

#include "preload/base/text.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_file.h"

namespace heapprof::recorder {

namespace {
constinit sys::ProcFile g_statm;
}

void open_resident_memory() noexcept { g_statm.open("/proc/self/statm"); }

void close_resident_memory() noexcept { g_statm.close(); }

ResidentMemory resident_memory() noexcept {
  const int descriptor = g_statm.descriptor();
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
