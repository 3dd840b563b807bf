#include "preload/sys/kernel.h"

namespace heapprof::sys {

constinit bool g_forbidden = false;

}  // namespace heapprof::sys
