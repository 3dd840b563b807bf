// The hash of numbers that a recording chooses, such as sizes and addresses, for unordered containers.
//
// std::hash of a number is the number itself, and the numbers of buckets are known: a recording could choose numbers
// that are all in one bucket, and each lookup would compare all. The order of a container with this hash differs from
// run to run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "analyzer/base/mix_bits.h"
#include "analyzer/base/random_seed.h"

namespace heapprof {

/// Of this process.
inline const std::uint64_t kHashSeed = random_seed();

struct ChosenKeyHash {
  std::size_t operator()(std::uint64_t key) const noexcept { return mix_bits(kHashSeed ^ key); }
};

/// How many keys a lookup in an unordered container compares at most, for tests.
template <typename Container>
std::size_t max_bucket_size(const Container& container) {
  std::size_t most = 0;
  for (std::size_t bucket = 0; bucket < container.bucket_count(); ++bucket)
    most = std::max(most, container.bucket_size(bucket));
  return most;
}

}  // namespace heapprof
