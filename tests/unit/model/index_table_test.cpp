// How many entries a lookup compares, counted: a table at most half full compares about 1.5 on average.
#include <catch2/catch.hpp>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "analyzer/base/mix_bits.h"
#include "analyzer/model/index_table.h"
#include "tests/support/chosen_addresses.h"

using heapprof::model::IndexTable;

namespace {

using Key = std::pair<std::uint64_t, std::uint64_t>;

/// The mean number of entries that adding each of `count` different keys, and then finding it, compares.
double mean_comparisons(std::size_t count, const std::function<Key(std::uint64_t)>& key_of) {
  IndexTable table(count);
  std::vector<Key> keys;
  std::uint64_t comparisons = 0;
  bool found_all = true;
  for (int round = 0; round < 2; ++round)
    for (std::size_t i = 0; i < count; ++i) {
      const Key key = key_of(i);
      const std::uint32_t index = table.find_or_add(
          key.first, key.second,
          [&](std::uint32_t at) {
            ++comparisons;
            return keys[at] == key;
          },
          [&] {
            keys.push_back(key);
            return static_cast<std::uint32_t>(keys.size() - 1);
          });
      found_all = found_all && index == i;
    }
  CHECK(found_all);
  return static_cast<double>(comparisons) / static_cast<double>(count) / 2;
}

}  // namespace

TEST_CASE("a table of indices compares few entries, whatever the shape of a call tree") {
  // Parent and address of nodes, by number of the node.
  const std::vector<std::pair<const char*, std::function<Key(std::uint64_t)>>> shapes = {
      {"a recursion",
       [](std::uint64_t i) {
         return Key{i, 5};
       }},
      {"a recursion with two calls",
       [](std::uint64_t i) {
         return Key{i / 2, i % 2};
       }},
      {"a recursion of 16 functions",
       [](std::uint64_t i) {
         return Key{i / 16, i % 16 * 977};
       }},
      {"one caller of many functions",
       [](std::uint64_t i) {
         return Key{7, i};
       }},
      {"every caller calls all functions", [](std::uint64_t i) {
         return Key{i % 173, i / 173};
       }}};
  for (const auto& [name, key_of] : shapes)
    for (const std::size_t count : {100, 5'000, 30'000}) {
      INFO(name << ", " << count);
      CHECK(mean_comparisons(count, key_of) < 2);
    }
}

TEST_CASE("a table of indices compares few entries, wherever code is loaded") {
  // Module and offset of code addresses.
  for (const unsigned stride_bits : {0, 4, 12, 24, 32, 40}) {
    INFO(stride_bits);
    CHECK(mean_comparisons(20'000, [&](std::uint64_t i) { return Key{i % 300, (i / 300) << stride_bits}; }) < 2);
    CHECK(mean_comparisons(20'000, [&](std::uint64_t i) { return Key{0, 0x7f0000000000 + (i << stride_bits)}; }) < 2);
  }
}

TEST_CASE("a table of indices compares few entries, also if the numbers were chosen for mix_bits()") {
  // Without a number that nobody knows, all entries would be in one place: the lower 20 bits of their hashes are 0.
  const auto second = [](std::uint64_t i) {
    return heapprof::test::undo_mix_bits((i + 1) << 20) - heapprof::mix_bits(1);
  };
  REQUIRE((heapprof::mix_bits(heapprof::mix_bits(1) + second(7)) & 0xfffff) == 0);
  CHECK(mean_comparisons(5'000, [&](std::uint64_t i) { return Key{1, second(i)}; }) < 3);
}

TEST_CASE("a table of indices distinguishes entries with equal hashes") {
  IndexTable table(2);
  const auto find = [&](std::uint32_t wanted, std::uint32_t fresh) {
    return table.find_or_add(
        0, 0, [&](std::uint32_t at) { return at == wanted; }, [&] { return fresh; });
  };
  CHECK(find(9, 1) == 1);  // none matches: adds 1
  CHECK(find(9, 2) == 2);
  CHECK(find(1, 3) == 1);
  CHECK(find(2, 3) == 2);
}
