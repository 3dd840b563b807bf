// The ranking of leaks depends on bytes, survival and growth.
#include <catch2/catch.hpp>

#include "analyzer/findings/leak_weight.h"

using namespace heapprof;
using namespace heapprof::findings;
using model::Growth;
using model::LeakTrend;

namespace {

LeakTrend trend(Growth growth, bool grew_with_load = false, unsigned rises = 1) {
  LeakTrend result;
  result.growth = growth;
  result.grew_with_load = grew_with_load;
  result.rises = rises;
  return result;
}

const LeakTrend kGrowing = trend(Growth::kGrowing);
const LeakTrend kStable = trend(Growth::kStable);
const LeakTrend kInUse = trend(Growth::kInUse);
const LeakTrend kWithLoad = trend(Growth::kStable, true);
const LeakTrend kUntilLoadEnded = trend(Growth::kStable, true, 6);

constexpr std::uint64_t kMiB = 1 << 20;

}  // namespace

TEST_CASE("a slow leak comes before a cache that is many times as large") {
  CHECK(leak_weight(kMiB, 1, &kGrowing) > leak_weight(18 * kMiB, 1, &kStable));      // a cache that is full
  CHECK(leak_weight(kMiB, 1, &kGrowing) > leak_weight(100 * kMiB, 0.2, &kInUse));    // a cache that turns over
  CHECK(leak_weight(kMiB, 0.1, &kGrowing) > leak_weight(10 * kMiB, 0.5, &kStable));  // a tenth is never freed
  CHECK(leak_weight(kMiB, 1, &kStable) > leak_weight(6 * kMiB, 0.2, &kStable));      // it leaked at the start
  CHECK(leak_weight(kMiB, 1, &kUntilLoadEnded) > leak_weight(18 * kMiB, 1, &kStable));
  CHECK(leak_weight(kMiB, 1, &kWithLoad) > leak_weight(3 * kMiB, 1, &kStable));  // or data loaded at the start
  CHECK(leak_weight(kMiB, 1, &kGrowing) > leak_weight(3 * kMiB, 1, &kWithLoad));
  CHECK(leak_weight(kMiB, 1, &kGrowing) > leak_weight(3 * kMiB, 0.1, &kGrowing));
  CHECK(leak_weight(kMiB, 1, nullptr) > leak_weight(6 * kMiB, 0.2, nullptr));
}

TEST_CASE("a little that grows does not come before everything else") {
  CHECK(leak_weight(940, 1, &kGrowing) < leak_weight(586 << 10, 1, &kStable));
  CHECK(leak_weight(kMiB, 1, &kGrowing) < leak_weight(24 * kMiB, 1, &kStable));
  CHECK(leak_weight(100, 1, &kStable) < leak_weight(kMiB, 0, &kInUse));
  CHECK(leak_weight(100, 1, &kGrowing) > leak_weight(99, 1, &kGrowing));
}

TEST_CASE("survival leaves out what a realloc moved") {
  model::Costs costs;
  CHECK(survival(costs) == 0);
  costs.allocated_bytes = 1000;
  costs.leaked_bytes = 250;
  CHECK(survival(costs) == 0.25);
  costs.moved_bytes = 500;
  CHECK(survival(costs) == 0.5);
  costs.moved_bytes = 1000;
  CHECK(survival(costs) == 1);
}
