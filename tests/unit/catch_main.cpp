// The test runner's main, compiled once for each unit test program.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
