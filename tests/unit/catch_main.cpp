// The test runner's main, compiled once for each unit test program. It prints the seed of all random choices first.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <cstdio>

#include "tests/support/seed.h"

int main(int argc, char** argv) {
  std::printf("HEAPPROF_TEST_SEED=%llu\n", static_cast<unsigned long long>(heapprof::test::given_seed()));
  std::fflush(stdout);
  return Catch::Session().run(argc, argv);
}
