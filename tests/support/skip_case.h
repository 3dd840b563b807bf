// Reports that a Catch2 test case cannot run on this machine. tools/test_result.py lists these cases next to the
// result, and those of Python tests, which print the same line (harness.py).
#pragma once

#include <catch2/catch.hpp>

#include <cstdio>

namespace heapprof::test {

/// Reports the running test case as skipped. The case returns after this call.
inline void skip_case(const char* reason) {
  std::printf("skipped case: %s (%s)\n", Catch::getResultCapture().getCurrentTestName().c_str(), reason);
  std::fflush(stdout);
}

}  // namespace heapprof::test
