// Texts that a hostile recording chooses as names.
#include "analyzer/base/chosen_key_hash.h"

#include <catch2/catch.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <vector>

using heapprof::ChosenTextHash;
using heapprof::max_bucket_size;

namespace {

// The constant of MurmurHash64A, which libstdc++ has in _Hash_bytes (libstdc++-v3/libsupc++/hash_bytes.cc).
constexpr std::uint64_t kFactor = 0xc6a4a7935bd1e995;

constexpr std::uint64_t inverse_of(std::uint64_t factor) {
  std::uint64_t inverse = factor;  // modulo 8; each step doubles the number of right bits
  for (int step = 0; step < 5; ++step) inverse *= 2 - factor * inverse;
  return inverse;
}

/// What MurmurHash makes of a word before it is combined with the hash of the words before it.
constexpr std::uint64_t mixed(std::uint64_t word) {
  word *= kFactor;
  return (word ^ word >> 47) * kFactor;
}

constexpr std::uint64_t undo_mixed(std::uint64_t word) {
  word *= inverse_of(kFactor);
  return (word ^ word >> 47) * inverse_of(kFactor);
}
static_assert(undo_mixed(mixed(0x0123456789abcdef)) == 0x0123456789abcdef);

/// The combination is hash = (hash ^ mixed) * kFactor. If only the highest bit of `mixed` differs, only the highest
/// bit of the hash differs, and the same difference of the next word removes that again, whatever the seed is. So
/// each pair of words can be replaced by another one without a change of the hash.
std::vector<std::string> texts_with_equal_hashes(unsigned pairs) {
  constexpr std::uint64_t kHighest = std::uint64_t{1} << 63;
  constexpr std::array<std::uint64_t, 2> kWords = {0x6c6c6f632e766564, 0x28636f6c6c616d20};  // any
  std::vector<std::string> texts;
  for (std::uint32_t choice = 0; choice < 1U << pairs; ++choice) {
    std::string text;
    for (unsigned pair = 0; pair < pairs; ++pair)
      for (const std::uint64_t word : kWords) {
        const std::uint64_t taken = (choice >> pair & 1) != 0 ? undo_mixed(mixed(word) ^ kHighest) : word;
        text.append(reinterpret_cast<const char*>(&taken), sizeof taken);
      }
    texts.push_back(text);
  }
  return texts;
}

}  // namespace

TEST_CASE("Few texts are compared, also if they were chosen for one bucket of a hash map") {
  const std::vector<std::string> texts = texts_with_equal_hashes(11);
  const std::unordered_set<std::string> usual(texts.begin(), texts.end());
  REQUIRE(usual.size() == 2'048);
  // Otherwise the texts are not chosen well, and this test shows nothing.
  REQUIRE(max_bucket_size(usual) == usual.size());

  std::unordered_map<std::string, std::size_t, ChosenTextHash> chosen;
  for (const std::string& text : texts) chosen.try_emplace(text, chosen.size());
  REQUIRE(chosen.size() == texts.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) wrong += chosen.at(texts[i]) != i;
  CHECK(wrong == 0);
  CHECK(max_bucket_size(chosen) < 30);
}

TEST_CASE("Containers keep the hashes of texts") {
  // This decides it (__cache_default in bits/hashtable.h of libstdc++).
  CHECK_FALSE(std::is_nothrow_invocable_v<const ChosenTextHash&, const std::string&>);
}
