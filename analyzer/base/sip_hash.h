// SipHash-1-3, a hash of texts with a secret key: without the key, nobody can choose texts whose hashes are equal.
//
// Jean-Philippe Aumasson, Daniel J. Bernstein: SipHash: a fast short-input PRF, 2012 (https://cr.yp.to/siphash/). One
// round for each word and three at the end are what the tables of Python, Ruby and Rust use. The authors also show
// that a random seed does not protect MurmurHash, which is libstdc++'s std::hash of a text: some texts have equal
// hashes whatever the seed is.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace heapprof {

struct SipKey {
  std::uint64_t first;
  std::uint64_t second;
};

inline std::uint64_t sip_hash(std::string_view text, const SipKey& key) noexcept {
  // The constants are "somepseudorandomlygeneratedbytes".
  std::uint64_t v0 = key.first ^ 0x736f6d6570736575u;
  std::uint64_t v1 = key.second ^ 0x646f72616e646f6du;
  std::uint64_t v2 = key.first ^ 0x6c7967656e657261u;
  std::uint64_t v3 = key.second ^ 0x7465646279746573u;
  const auto sip_round = [&] {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  };
  const auto add_word = [&](std::uint64_t word) {
    v3 ^= word;
    sip_round();
    v0 ^= word;
  };
  const char* at = text.data();
  std::size_t left = text.size();
  for (; left >= sizeof(std::uint64_t); at += sizeof(std::uint64_t), left -= sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    add_word(word);
  }
  std::uint64_t last = 0;
  if (left != 0) std::memcpy(&last, at, left);
  add_word(last | std::uint64_t{text.size()} << 56);
  v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) sip_round();
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace heapprof
