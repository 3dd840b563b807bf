// The recorder's settings: the values that they accept.
#include "analyzer/launch/recorder_settings.h"

#include <stdlib.h>

#include <catch2/catch.hpp>

using namespace heapprof::launch;

TEST_CASE("every default of a setting is a value that it accepts") {
  for (const RecorderSetting& setting : recorder_settings()) {
    INFO(setting.variable);
    const std::string value = setting.default_value;
    if (value != "none" && value != "standard error") CHECK(is_valid(setting, value));
    CHECK(!expected_value(setting).empty());
  }
}

TEST_CASE("variables in the environment have the same rules as options") {
  std::string error;
  CHECK(check_environment(error));
  setenv("HEAPPROF_MAX_DEPTH", "12", 1);
  setenv("HEAPPROF_CHILDREN", "yes", 1);
  CHECK(check_environment(error));
  setenv("HEAPPROF_CHILDREN", "perhaps", 1);
  CHECK(!check_environment(error));
  CHECK(error.find("invalid value 'perhaps' for the environment variable HEAPPROF_CHILDREN") != std::string::npos);
  CHECK(error.find("on, off") != std::string::npos);
  unsetenv("HEAPPROF_MAX_DEPTH");
  unsetenv("HEAPPROF_CHILDREN");
}
