// What /proc contains of a process, and of one that is gone.
#include "analyzer/base/process_stat.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>

using heapprof::read_process_stat;

TEST_CASE("a process that runs has a start time, one that does not exist has none") {
  const auto self = read_process_stat("self");
  REQUIRE(self.has_value());
  CHECK(self->state == 'R');
  CHECK(self->start_time > 0);
  CHECK(!read_process_stat("0"));
}

TEST_CASE("a file that can be opened but not read is none") {
  // As that of a process that is reaped between the two; of a directory each read fails.
  std::string directory = "/tmp/heapprof-test-XXXXXX";
  REQUIRE(::mkdtemp(directory.data()) != nullptr);
  std::filesystem::create_directory(directory + "/stat");
  CHECK_NOTHROW(read_process_stat(".." + directory));
  CHECK(!read_process_stat(".." + directory));
  std::filesystem::remove_all(directory);
}
