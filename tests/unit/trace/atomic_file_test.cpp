// A file that gets its name only when it is complete.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "analyzer/trace/files/atomic_file.h"
#include "analyzer/trace/files/input_file.h"
#include "tests/support/temporary_file.h"

using heapprof::trace::AtomicFile;

namespace {

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void append(AtomicFile& file, const std::string& text) {
  file.append({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

}  // namespace

TEST_CASE("The old file stays until the new one is complete") {
  const heapprof::test::TemporaryFile path;
  std::ofstream(path.path()) << "old";
  AtomicFile file(path.path());
  append(file, "new ");
  CHECK(contents_of(path.path()) == "old");
  append(file, "file");
  CHECK(file.bytes() == 8);
  const std::string temporary = file.temporary_path();
  CHECK(contents_of(temporary) == "new file");
  file.finish();
  CHECK(contents_of(path.path()) == "new file");
  CHECK_FALSE(std::filesystem::exists(temporary));
}

TEST_CASE("Without finish() nothing is left behind") {
  const heapprof::test::TemporaryFile path;
  std::string temporary;
  {
    AtomicFile file(path.path());
    append(file, "partial");
    temporary = file.temporary_path();
    CHECK(std::filesystem::exists(temporary));
  }
  CHECK_FALSE(std::filesystem::exists(temporary));
}

TEST_CASE("A file that cannot be created is an error with its path") {
  CHECK_THROWS_AS(AtomicFile("/nonexistent-directory/file"), heapprof::trace::TraceError);
  CHECK_THROWS_WITH(AtomicFile("/nonexistent-directory/file"),
                    Catch::Contains("/nonexistent-directory/file: cannot be written"));
}
