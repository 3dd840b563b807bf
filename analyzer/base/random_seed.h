// A number that nobody knows beforehand, for hash tables whose keys somebody else chooses.
#pragma once

#include <chrono>
#include <cstdint>
#include <sys/random.h>
#include <sys/types.h>

#include "analyzer/base/mix_bits.h"

namespace heapprof {

/// Never 0.
inline std::uint64_t random_seed() noexcept {
  std::uint64_t seed = 0;
  // A kernel or container without random numbers is no reason to end: the time is hard enough to guess.
  if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof seed))
    seed = mix_bits(static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return seed == 0 ? 1 : seed;
}

}  // namespace heapprof
