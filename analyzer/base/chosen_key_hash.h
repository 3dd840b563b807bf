// Hashes of numbers and texts that a recording or a request chooses, such as sizes, addresses and names of functions,
// for unordered containers.
//
// std::hash of a number is the number itself, that of a text has a seed that is always the same, and the numbers of
// buckets are known: a recording could choose keys that are all in one bucket, and each lookup would compare all. The
// order of a container with one of these hashes differs from run to run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/base/mix_bits.h"
#include "analyzer/base/random_seed.h"
#include "analyzer/base/sip_hash.h"

namespace heapprof {

/// Of this process.
inline const std::uint64_t kHashSeed = random_seed();
inline const SipKey kTextHashKey = {random_seed(), random_seed()};

struct ChosenKeyHash {
  std::size_t operator()(std::uint64_t key) const noexcept { return mix_bits(kHashSeed ^ key); }
};

/// Not noexcept: only then a container of libstdc++ keeps the hash of each text, and neither grows nor walks along a
/// bucket by reading the texts again.
struct ChosenTextHash {
  std::size_t operator()(std::string_view key) const { return sip_hash(key, kTextHashKey); }
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
