// The test runner's main, compiled once for each unit test program. It prints the seed of all random choices first.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <cstdio>
#include <cstring>

#include "tests/support/seed.h"

/// heapprof's main(), in the test program of its commands; null in others.
[[gnu::weak]] int heapprof_main(int argc, char** argv);

int main(int argc, char** argv) {
  // serve and html start the running program again as heapprof, for each answer.
  if (heapprof_main != nullptr && argc > 0 && std::strcmp(argv[0], "heapprof") == 0) return heapprof_main(argc, argv);
  std::printf("HEAPPROF_TEST_SEED=%llu\n", static_cast<unsigned long long>(heapprof::test::given_seed()));
  std::fflush(stdout);
  return Catch::Session().run(argc, argv);
}
