#include <catch2/catch.hpp>

#include "analyzer/model/lifetimes.h"

using namespace heapprof::model;

TEST_CASE("Lifetimes are in classes by powers of ten; a limit is in the upper class") {
  Lifetimes lives;
  lives.freed(0, 1);
  lives.freed(999, 2);
  lives.freed(1'000, 4);
  lives.freed(999'999'999, 8);
  lives.freed(1'000'000'000, 16);
  lives.freed(~std::uint64_t{0}, 32);
  lives.left(64);
  CHECK(lives.classes()[0].blocks == 2);
  CHECK(lives.classes()[0].bytes == 3);
  CHECK(lives.classes()[1].bytes == 4);
  CHECK(lives.classes()[6].below_ns == 1'000'000'000);
  CHECK(lives.classes()[6].bytes == 8);
  CHECK(lives.classes()[7].bytes == 16);
  CHECK(lives.classes().back().below_ns == 0);
  CHECK(lives.classes().back().bytes == 32);
  CHECK(lives.left().bytes == 64);
}
