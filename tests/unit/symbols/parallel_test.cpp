#include "analyzer/symbols/parallel.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstddef>
#include <pthread.h>

using heapprof::symbols::run_on_all_cores;

namespace {

/// While it lives, no thread can be started: their stacks would be larger than the address space.
class NoThreads {
 public:
  NoThreads() {
    REQUIRE(pthread_getattr_default_np(&before_) == 0);
    pthread_attr_t huge;
    REQUIRE(pthread_getattr_default_np(&huge) == 0);
    REQUIRE(pthread_attr_setstacksize(&huge, std::size_t{1} << 60) == 0);
    REQUIRE(pthread_setattr_default_np(&huge) == 0);
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_;
};

}  // namespace

TEST_CASE("each job is done once") {
  constexpr int kJobs = 1000;
  std::atomic<int> next = 0;
  std::atomic<int> sum = 0;
  run_on_all_cores(kJobs, [&] {
    for (int job; (job = next.fetch_add(1)) < kJobs;) sum += job;
  });
  CHECK(sum.load() == kJobs * (kJobs - 1) / 2);
}

TEST_CASE("where no thread can be started, the calling thread does all of the work") {
  std::atomic<int> calls = 0;
  {
    const NoThreads no_threads;
    run_on_all_cores(100, [&] { ++calls; });
  }
  CHECK(calls.load() == 1);
}
