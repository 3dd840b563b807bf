#include "preload/sys/kernel.h"

namespace heapprof::sys {

constinit uint64_t g_forbidden = 0;

long call_again(long number, long a, long b, long c, long d, long e) noexcept {
  constexpr int kMaxCalls = 100;
  long result = kInterrupted;
  for (int i = 0; i < kMaxCalls && result == kInterrupted; ++i) result = call(number, a, b, c, d, e);
  return result;
}

}  // namespace heapprof::sys
