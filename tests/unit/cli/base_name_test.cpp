#include "analyzer/base/base_name.h"

#include <catch2/catch.hpp>

TEST_CASE("the last part of a path is its base name") {
  CHECK(heapprof::base_name("/usr/lib/libx.so.1") == "libx.so.1");
  CHECK(heapprof::base_name("libx.so") == "libx.so");
  CHECK(heapprof::base_name("") == "");
}
