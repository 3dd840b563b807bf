#include "analyzer/base/base_name.h"

#include <catch2/catch.hpp>

TEST_CASE("the last part of a path is its base name") {
  CHECK(heapprof::base_name("/usr/lib/libx.so.1") == "libx.so.1");
  CHECK(heapprof::base_name("libx.so") == "libx.so");
  CHECK(heapprof::base_name("") == "");
}

TEST_CASE("a source file that many folders have is shown with its folder") {
  using heapprof::source_name;
  CHECK(source_name("/usr/lib/python3.11/json/__init__.py") == "json/__init__.py");
  CHECK(source_name("json/__main__.py") == "json/__main__.py");
  CHECK(source_name("src/net/mod.rs") == "net/mod.rs");
  CHECK(source_name("__init__.py") == "__init__.py");
  CHECK(source_name("/__init__.py") == "__init__.py");
  CHECK(source_name("/app//json//__init__.py") == "json/__init__.py");
  CHECK(source_name("//__init__.py") == "__init__.py");
  CHECK(source_name("/app/job.py") == "job.py");
  CHECK(source_name("") == "");
}
