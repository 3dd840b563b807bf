// The ranking of leaks depends on growth and on size.
#include <catch2/catch.hpp>

#include "analyzer/model/leak_history.h"

using heapprof::model::Growth;
using heapprof::model::rank_weight;

TEST_CASE("a growing stack is ranked before a stable one, unless it is tiny") {
  CHECK(rank_weight(Growth::kGrowing, 100'000) > rank_weight(Growth::kStable, 1'000'000));
  CHECK(rank_weight(Growth::kGrowing, 940) < rank_weight(Growth::kStable, 586 << 10));
  CHECK(rank_weight(Growth::kStable, 100'000) > rank_weight(Growth::kInUse, 1'000'000));
  CHECK(rank_weight(Growth::kStable, 100) < rank_weight(Growth::kInUse, 1'000'000));
  CHECK(rank_weight(Growth::kGrowing, 100) > rank_weight(Growth::kGrowing, 99));
}
