// The second pass, for commands that need every event.
#include <catch2/catch.hpp>

#include "analyzer/cli/commands/shared/second_pass.h"
#include "analyzer/cli/text/frame_text.h"
#include "tests/unit/cli/command_run.h"
#include "tests/unit/cli/known_trace.h"

using namespace heapprof;
using namespace heapprof::cli;
using namespace heapprof::test;

TEST_CASE("commands that read blocks refuse mappings") {
  const KnownTrace trace;
  for (const char* command : {"histogram", "churn", "reallocs", "threads", "frees"}) {
    INFO(command);
    for (const char* kind : {"mmap", "all"}) {
      const Outcome outcome = run({command, trace.path(), "--kind", kind});
      CHECK(outcome.status == 2);
      CHECK(outcome.out == "");
      CHECK(outcome.err.find("--kind") != std::string::npos);
    }
    CHECK(run({command, trace.path(), "--kind", "heap"}).status == 0);
  }
}

TEST_CASE("a block's lifetime is not negative") {
  replay::ProfileEvent free_event{};
  free_event.allocated_ns = 10;
  free_event.time_ns = 25;
  CHECK(lifetime_of(free_event) == 15);
  free_event.time_ns = 5;
  CHECK(lifetime_of(free_event) == 0);
}

TEST_CASE("figures of stacks add up by call site, the largest site first") {
  struct Sum {
    std::uint64_t blocks = 0;
    Sum& operator+=(const Sum& other) {
      blocks += other.blocks;
      return *this;
    }
  };
  const KnownTrace trace;
  const replay::Analysis analysis(trace.path(), {});
  const model::Profile& profile = analysis.profile();
  std::vector<Sum> costs(profile.nodes.size());
  std::uint64_t all = 0;
  for (std::uint32_t node = 0; node < profile.nodes.size(); ++node)
    all += costs[node].blocks = profile.nodes[node].costs.allocations;
  StackNames names(profile, {});
  const auto sites = costs_by_site(profile, names, {}, costs, [](const Sum& sum) { return sum.blocks; });
  REQUIRE(sites.size() == 3);
  CHECK(all == kAllocations);
  CHECK(sites[0].costs.blocks + sites[1].costs.blocks + sites[2].costs.blocks == all);
  CHECK(sites[0].costs.blocks == 2);
  CHECK(sites[2].costs.blocks == 1);
  CHECK(site_name(sites[2].site.frame) == kWorkName);
}
