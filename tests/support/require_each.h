// An assertion for loops. Those of Catch take longer than most of what they check, because its library is compiled
// without optimization (tests/meson.build), and ten times as long with an emulator (tools/aarch64.sh).
#pragma once

#include <catch2/catch.hpp>

namespace heapprof::test {

/// As REQUIRE(holds), for what is true many thousand times.
inline void require_each(bool holds, int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  if (!holds) FAIL(file << ":" << line << ": this is not true each time");
}

}  // namespace heapprof::test
