#include "analyzer/cli/text/signal_name.h"

#include <dlfcn.h>

#include <string>

#include <catch2/catch.hpp>

using heapprof::cli::signal_name;

TEST_CASE("signals have the names that glibc gives them") {
  // Looked up, so that the tests of the packages can be linked with the packages' older glibc.
  const auto sigabbrev = reinterpret_cast<const char* (*)(int)>(::dlsym(RTLD_DEFAULT, "sigabbrev_np"));
  REQUIRE(sigabbrev != nullptr);
  for (int number = -1; number <= 70; ++number) {
    const char* const expected = sigabbrev(number);
    const char* const name = signal_name(number);
    INFO("signal " << number);
    CHECK(std::string(name == nullptr ? "none" : name) == (expected == nullptr ? "none" : expected));
  }
}
