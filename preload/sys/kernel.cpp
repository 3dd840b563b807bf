#include "preload/sys/kernel.h"

namespace heapprof::sys {

constinit uint64_t g_forbidden = 0;

long retry_call(long number, long a, long b, long c, long d, long e) noexcept {
  constexpr int kMaxAttempts = 100;
  long result = kInterrupted;
  for (int i = 0; i < kMaxAttempts && result == kInterrupted; ++i) result = call(number, a, b, c, d, e);
  return result;
}

}  // namespace heapprof::sys
