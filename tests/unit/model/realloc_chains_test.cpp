#include <catch2/catch.hpp>

#include <cstdint>
#include <unordered_map>

#include "analyzer/model/realloc_chains.h"

using namespace heapprof::model;

TEST_CASE("Realloc chains count steps, moves and copies for the stack of each step") {
  ReallocChains chains;
  // 10 -> 20 (moves) -> 40 (stays), then freed; 100 -> 50 (moves) by another stack, not freed.
  chains.begin_step(0xa, 1, 10);
  chains.stepped(0xa, 1, 0xb, 20, 1);
  chains.begin_step(0xb, 2, 20);
  chains.stepped(0xb, 2, 0xb, 40, 1);
  chains.freed(0xb);
  chains.begin_step(0xc, 1, 100);
  chains.stepped(0xc, 1, 0xd, 50, 2);
  chains.freed(0xe);                    // never reallocated
  chains.stepped(0xf, 1, 0x10, 99, 2);  // its block is not selected
  chains.begin_step(0xd, 3, 50);        // realloc(p, 0) ends it
  chains.finish();
  CHECK(chains.costs()[1].steps == 2);
  CHECK(chains.costs()[1].moved == 1);
  CHECK(chains.costs()[1].copied_bytes == 10);
  CHECK(chains.costs()[1].chains == 1);
  CHECK(chains.costs()[1].longest == 2);
  CHECK(chains.costs()[1].longest_first_bytes == 10);
  CHECK(chains.costs()[1].longest_last_bytes == 40);
  CHECK(chains.costs()[2].steps == 1);
  CHECK(chains.costs()[2].copied_bytes == 50);
  CHECK(chains.costs()[2].chains == 1);
}

TEST_CASE("Steps of two blocks that had one address are told apart by when these were allocated") {
  ReallocChains chains;
  chains.begin_step(0xa, 1, 1'000);  // another block gets the address, and is reallocated there
  chains.begin_step(0xa, 2, 10);
  chains.stepped(0xa, 1, 0xb, 2'000, 1);
  chains.stepped(0xa, 2, 0xc, 20, 2);
  chains.finish();
  CHECK(chains.costs()[1].copied_bytes == 1'000);
  CHECK(chains.costs()[1].longest_first_bytes == 1'000);
  CHECK(chains.costs()[2].copied_bytes == 10);
  CHECK(chains.costs()[2].longest_first_bytes == 10);
}

TEST_CASE("Few blocks are compared, also if their addresses were chosen for one bucket of a hash map") {
  constexpr std::uint64_t kBlocks = 20'000;
  std::unordered_map<std::uint64_t, std::uint64_t> usual;
  for (std::uint64_t i = 0; i < kBlocks; ++i) usual[i] = i;
  const std::uint64_t buckets = usual.bucket_count();
  ReallocChains chains;
  for (std::uint64_t i = 1; i <= kBlocks; ++i) {
    chains.begin_step(1, i, 10);
    chains.stepped(1, i, i * buckets, 20, 1);
  }
  CHECK(chains.max_compared() < 30);
  chains.finish();
  CHECK(chains.costs()[1].chains == kBlocks);
}

TEST_CASE("Of chains with equally many steps, the one with the largest block is the longest, at whatever addresses") {
  for (const std::uint64_t first_address : {0x1000, 0x9000}) {
    ReallocChains chains;
    for (const std::uint64_t size : {30, 50, 40}) {
      const std::uint64_t address = first_address ^ size << 4;
      chains.begin_step(1, size, size - 10);
      chains.stepped(1, size, address, size, 1);
    }
    chains.finish();
    CHECK(chains.costs()[1].longest_last_bytes == 50);
    CHECK(chains.costs()[1].longest_first_bytes == 40);
  }
}
