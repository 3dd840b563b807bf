#include "analyzer/cli/text/signal_name.h"

#include <cstring>
#include <string>

#include <catch2/catch.hpp>

using heapprof::cli::signal_name;

TEST_CASE("signals have the names that glibc gives them") {
  for (int number = -1; number <= 70; ++number) {
    const char* const expected = ::sigabbrev_np(number);
    const char* const name = signal_name(number);
    INFO("signal " << number);
    CHECK(std::string(name == nullptr ? "none" : name) == (expected == nullptr ? "none" : expected));
  }
}
