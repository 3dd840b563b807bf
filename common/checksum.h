// The checksum of headers and frames: XXH3, 64 bits (xxHash, BSD licence; compiled inline, so that the recorder needs
// no library). It detects damage and stale bytes, not forgery. The includer may use other hashes of XXH3, too.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

namespace heapprof {

inline std::uint64_t checksum(const void* bytes, std::size_t size) noexcept { return XXH3_64bits(bytes, size); }

}  // namespace heapprof
