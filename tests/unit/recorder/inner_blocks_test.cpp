// The blocks recorded inside a call of the real allocator.
#include "preload/recorder/thread/inner_blocks.h"

#include <catch2/catch.hpp>

using heapprof::recorder::InnerBlocks;

namespace {
char blocks[16];
}

TEST_CASE("A call finds the blocks that were added during it, not earlier ones") {
  InnerBlocks inner{};
  inner.add(&blocks[0]);
  const std::uint32_t before = inner.count();
  CHECK_FALSE(inner.has(&blocks[0], before));
  inner.add(&blocks[1]);
  CHECK(inner.has(&blocks[1], before));
  CHECK(inner.has(&blocks[1], 0));
  CHECK(inner.has(&blocks[0], 0));
}

TEST_CASE("A freed block is not found") {
  InnerBlocks inner{};
  inner.add(&blocks[0]);
  inner.add(&blocks[1]);
  inner.remove(&blocks[0]);
  inner.remove(&blocks[2]);
  CHECK_FALSE(inner.has(&blocks[0], 0));
  CHECK(inner.has(&blocks[1], 0));
  inner.remove(&blocks[1]);
  CHECK_FALSE(inner.has(&blocks[1], 0));
}

TEST_CASE("A handler's blocks, live or freed, do not displace the call's") {
  InnerBlocks inner{};
  inner.add(&blocks[0]);
  for (int i = 0; i < 100; ++i) {
    inner.add(&blocks[1]);
    inner.remove(&blocks[1]);
  }
  for (int i = 2; i < 16; ++i) inner.add(&blocks[i]);
  CHECK(inner.has(&blocks[0], 0));
}

TEST_CASE("The latest block is always found, by its own call and by outer ones") {
  InnerBlocks inner{};
  for (char& block : blocks) {
    const std::uint32_t before = inner.count();
    inner.add(&block);
    CHECK(inner.has(&block, before));
    CHECK(inner.has(&block, 0));
  }
}
