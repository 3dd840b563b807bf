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
