// Seeds of random choices in unit tests. HEAPPROF_TEST_SEED, which catch_main.cpp prints, changes all of them.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace heapprof::test {

/// The number in HEAPPROF_TEST_SEED; 0 unless set.
inline std::uint64_t given_seed() {
  const char* const text = std::getenv("HEAPPROF_TEST_SEED");
  return text == nullptr ? 0 : std::strtoull(text, nullptr, 10);
}

/// The seed `own` of a generator, changed by HEAPPROF_TEST_SEED.
inline std::uint64_t seed(std::uint64_t own) { return own + given_seed() * 1'000'003; }

}  // namespace heapprof::test
