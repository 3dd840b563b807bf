#include "analyzer/processes/one_clock.h"

#include <catch2/catch.hpp>

using namespace heapprof;
using namespace heapprof::processes;

namespace {

FileHeader header_of(unsigned char boot, std::uint64_t monotonic_ns, std::uint64_t realtime_ns) {
  FileHeader header{};
  header.boot_id[0] = boot;
  header.start_monotonic_ns = monotonic_ns;
  header.start_realtime_ns = realtime_ns;
  return header;
}

}  // namespace

TEST_CASE("Recordings of one boot share its monotonic clock") {
  // The calendar was set back between them.
  const std::vector<FileHeader> headers = {header_of(1, 500, 9000), header_of(1, 300, 9900)};
  const OneClock clock = one_clock(headers);
  CHECK_FALSE(clock.is_calendar);
  CHECK(clock.start_ns == std::vector<std::uint64_t>{200, 0});
}

TEST_CASE("Recordings of several boots share the calendar") {
  const std::vector<FileHeader> headers = {header_of(1, 500, 9000), header_of(2, 300, 9900)};
  const OneClock clock = one_clock(headers);
  CHECK(clock.is_calendar);
  CHECK(clock.start_ns == std::vector<std::uint64_t>{0, 900});
}

TEST_CASE("A recording without an end has no known length") {
  FileHeader header = header_of(1, 500, 9000);
  CHECK_FALSE(length_of(header));
  header.end_monotonic_ns = 800;
  CHECK(length_of(header) == 300);
}

TEST_CASE("Of files with the same id, one that is whole and has ended counts, then the longest, then the first") {
  struct File {
    std::uint64_t id, header_bytes, bytes, end_ns;
    std::optional<std::size_t> copy_of;
  };
  const std::vector<File> files = {
      {7, 8192, 8192, 0, 1},               // copied while the program ran
      {7, 9000, 9000, 100, std::nullopt},  // the recording
      {8, 4096, 4096, 0, 4},
      {7, 9000, 9000, 100, 1},           // another copy
      {8, 8192, 8192, 0, std::nullopt},  // grew after it was copied
      {7, 9000, 4096, 100, 1},           // truncated
      {9, 8192, 8192, 0, std::nullopt},  // whole, but copied early
      {9, 9000, 4096, 100, 6},           // ended, but truncated
  };
  std::vector<FileHeader> headers(files.size());
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < files.size(); ++i) {
    headers[i].file_id = files[i].id;
    headers[i].file_bytes = files[i].header_bytes;
    headers[i].end_monotonic_ns = files[i].end_ns;
    sizes.push_back(files[i].bytes);
  }
  const auto of = copies(headers, sizes);
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    CHECK(of[i] == files[i].copy_of);
  }
}
