// Text about the end and the completeness of a recording.
#include <catch2/catch.hpp>

#include "analyzer/cli/text/recording_text.h"

using namespace heapprof;
using namespace heapprof::cli;

TEST_CASE("the end of a recording is printed in words") {
  model::Profile profile;
  profile.recording.program = "/opt/known/demo";
  CHECK(command_of(profile).find("demo") != std::string::npos);
  profile.integrity.ended_by = "exit";
  profile.integrity.end_status = 3;
  CHECK(ending_of(profile).find('3') != std::string::npos);
  const std::string at_end = live_words(profile);
  profile.integrity.ended_by = "running";
  CHECK(live_words(profile) != at_end);
}

TEST_CASE("missing data is counted") {
  model::Integrity integrity;
  integrity.events_lost = 6;
  CHECK(losses_of(integrity) == "recorded data is missing: 6 events lost");
  integrity.bytes_damaged = 4096;
  CHECK(losses_of(integrity) == "recorded data is missing: 6 events lost, 4,096 bytes damaged");
  integrity.events_lost.reset();
  integrity.bytes_damaged = 0;
  CHECK(losses_of(integrity) == "recorded data is missing: unknown number of events lost");
}
