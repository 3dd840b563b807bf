#include <catch2/catch.hpp>

#include "analyzer/model/free_pairs.h"

using namespace heapprof::model;

TEST_CASE("Each pair of threads has its own sum") {
  PairSums pairs;
  pairs.add(0, 0, 5);
  pairs.add(0, 1, 1);
  pairs.add(1, 0, 2);
  pairs.add(0, 1, 4);
  REQUIRE(pairs.entries().size() == 3);
  CHECK(pairs.entries()[0].sum.bytes == 5);
  CHECK(pairs.entries()[1].sum.bytes == 5);
  CHECK(pairs.entries()[1].sum.blocks == 2);
  CHECK(pairs.entries()[2].from == 1);
}
