#include "preload/sys/kernel.h"

namespace heapprof::sys {

constinit uint32_t g_forbidden = 0;

}  // namespace heapprof::sys
