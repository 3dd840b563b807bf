// How stacks that leak are classified.
#include <catch2/catch.hpp>

#include "analyzer/model/leak_history.h"

using namespace heapprof::model;

namespace {

Profile profile_with_leaks(std::size_t nodes) {
  Profile profile;
  profile.nodes.resize(nodes + 1);
  for (std::size_t node = 1; node <= nodes; ++node) profile.nodes[node].costs.leaked_blocks = 1;
  return profile;
}

}  // namespace

TEST_CASE("Growing, stable and in-use stacks are distinguished") {
  const Profile profile = profile_with_leaks(4);
  LeakHistory history(profile, 0, 1600);
  for (std::uint64_t time = 0; time < 1600; time += 10) {
    history.allocated(1, 10, time);                  // to the end
    if (time < 300) history.allocated(2, 10, time);  // in the first three parts
    history.allocated(3, 10, time);                  // each replaces the block of 100 ns before
    if (time >= 100) history.freed(3, 10, time, time - 100);
    history.allocated(4, 1000, time);  // freed at once
    history.freed(4, 1000, time, time);
  }
  history.allocated(4, 1000, 1599);
  for (std::uint64_t time = 0; time < 1600; time += 10) history.left(1, 10, time);
  for (std::uint64_t time = 0; time < 300; time += 10) history.left(2, 10, time);
  for (std::uint64_t time = 1500; time < 1600; time += 10) history.left(3, 10, time);
  history.left(4, 1000, 1599);
  history.finish();

  CHECK(history.of(1).growth == Growth::kGrowing);
  CHECK(history.of(1).rises == LeakTrend::kParts);
  CHECK(history.of(1).low_bytes.back() == 1600);
  CHECK(history.of(1).low_bytes[8] == 800);
  CHECK(history.of(1).first_ns == 0);
  CHECK(history.of(1).last_ns == 1590);
  CHECK(history.of(2).growth == Growth::kStable);
  CHECK(history.of(2).rises == 3);
  CHECK(history.of(2).left_blocks == 30);
  CHECK(history.of(3).growth == Growth::kInUse);
  CHECK(history.of(3).longest_life_ns == 100);
  CHECK(history.of(3).freed_blocks == 150);
  CHECK(history.of(4).growth == Growth::kStable);  // older than the longest lifetime, which is 0
  CHECK(history.of(4).low_bytes[7] == 0);
}

TEST_CASE("A leak that stopped before the last quarter is not growing") {
  const Profile profile = profile_with_leaks(1);
  LeakHistory history(profile, 0, 1600);
  for (std::uint64_t time = 0; time < 1000; time += 10) {
    history.allocated(1, 10, time);
    history.left(1, 10, time);
  }
  history.finish();
  CHECK(history.of(1).rises == 10);
  CHECK(history.of(1).growth == Growth::kStable);
}

TEST_CASE("A stack that rose late and freed most of it is not growing") {
  const Profile profile = profile_with_leaks(1);
  for (const bool freed : {false, true}) {
    LeakHistory history(profile, 0, 1600);
    for (std::uint64_t time = 900; time < 1300; time += 10) history.allocated(1, 10, time);
    if (freed)
      for (std::uint64_t time = 1400; time < 1550; time += 5) history.freed(1, 10, time, time - 500);
    for (std::uint64_t time = freed ? 1200 : 900; time < 1300; time += 10) history.left(1, 10, time);
    history.finish();
    CHECK(history.of(1).rises == 4);
    CHECK((history.of(1).growth == Growth::kGrowing) == !freed);
  }
}

TEST_CASE("A table that a realloc enlarges is growing") {
  for (const bool moved : {false, true}) {
    LeakHistory history(1, 0, 1600);
    history.allocated(0, 10, 0);
    for (std::uint64_t step = 1; step < 16; ++step) {
      history.freed(0, step * 10, step * 100, step * 100 - 100, moved);
      history.allocated(0, step * 10 + 10, step * 100);
    }
    history.left(0, 160, 1500);
    history.finish();
    CHECK((history.of(0).growth == Growth::kGrowing) == moved);
  }
}

TEST_CASE("A block that a realloc moves to another stack is gone") {
  LeakHistory history(1, 0, 1600);
  history.allocated(0, 10, 0);
  history.freed(0, 10, 550, 0, true);
  history.allocated(0, 3, 1300);
  history.left(0, 3, 1300);
  history.finish();
  CHECK(history.of(0).low_bytes[4] == 10);
  CHECK(history.of(0).low_bytes[5] == 0);
  CHECK(history.of(0).low_bytes[6] == 0);
}

TEST_CASE("a leak that grew as long as there was load differs from memory allocated at the start") {
  Timeline timeline;
  for (std::uint64_t start = 0; start < 1600; start += 10) {
    Timeline::Bucket bucket;
    bucket.start_ns = start;
    bucket.allocations = start < 320 ? 100 : start % 100 == 0 ? 1 : 0;  // load, then hardly any
    timeline.buckets.push_back(bucket);
  }
  LeakHistory history(2, 0, 1600);
  history.set_load(load_times(timeline));
  for (std::uint64_t time = 0; time < 320; time += 5) {
    history.allocated(0, 10, time);
    history.left(0, 10, time);
    if (time >= 20) continue;
    history.allocated(1, 200, time);
    history.left(1, 200, time);
  }
  history.finish();
  CHECK(history.of(0).growth == Growth::kStable);
  CHECK(history.of(0).grew_with_load);
  CHECK(history.of(0).grew_until_ns > 300);
  CHECK(history.of(0).grew_until_ns < 320);
  CHECK(history.of(1).growth == Growth::kStable);
  CHECK_FALSE(history.of(1).grew_with_load);
  CHECK(history.of(1).grew_until_ns == 15);
}

TEST_CASE("Load divides the allocations, not the time") {
  Timeline timeline;
  CHECK(load_times(timeline).front() == ~std::uint64_t{0});
  for (std::uint64_t start = 0; start < 32; ++start) {
    Timeline::Bucket bucket;
    bucket.start_ns = start;
    bucket.allocations = start < 16 ? 10 : 0;
    timeline.buckets.push_back(bucket);
  }
  const LoadTimes times = load_times(timeline);
  CHECK(times.front() == 1);
  CHECK(times.back() == 15);
}

TEST_CASE("A cache that has filled stopped growing when it was full") {
  LeakHistory history(1, 0, 1600);
  for (std::uint64_t time = 0; time < 1600; ++time) {
    history.allocated(0, 10, time);
    if (time >= 400) history.freed(0, 10, time, time - 400);
  }
  for (std::uint64_t time = 1200; time < 1600; ++time) history.left(0, 10, time);
  history.finish();
  CHECK(history.of(0).growth == Growth::kInUse);
  CHECK(history.of(0).grew_until_ns < 402);
  CHECK(history.of(0).grew_until_ns > 380);
}
