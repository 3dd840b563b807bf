// A file that gets its name only when it is complete.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "analyzer/base/atomic_file.h"
#include "tests/support/temporary_file.h"

using heapprof::AtomicFile;

namespace {

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("The old file stays until the new one is complete") {
  const heapprof::test::TemporaryFile path;
  std::ofstream(path.path()) << "old";
  AtomicFile file(path.path());
  file.append("new ");
  CHECK(contents_of(path.path()) == "old");
  file.append("file");
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
    file.append("partial");
    temporary = file.temporary_path();
    CHECK(std::filesystem::exists(temporary));
  }
  CHECK_FALSE(std::filesystem::exists(temporary));
}

TEST_CASE("Two writers of one path do not disturb each other") {
  const heapprof::test::TemporaryFile path;
  AtomicFile first(path.path()), second(path.path());
  first.append("first");
  second.append("second");
  second.finish();
  CHECK(contents_of(path.path()) == "second");
  first.finish();
  CHECK(contents_of(path.path()) == "first");
}

TEST_CASE("Temporary files are recognized by their names") {
  const heapprof::test::TemporaryFile path;
  const AtomicFile file(path.path());
  CHECK(AtomicFile::is_temporary(file.temporary_path()));
  CHECK_FALSE(AtomicFile::is_temporary(path.path()));
  for (const char* name : {"", "x", "new-ABCDEF", "file.new-ABCDE", "file.new-ABCDEFG", "file.new"})
    CHECK_FALSE(AtomicFile::is_temporary(name));
}

TEST_CASE("A file that cannot be created is an error with its path") {
  CHECK_THROWS_AS(AtomicFile("/nonexistent-directory/file"), heapprof::FileError);
  CHECK_THROWS_WITH(AtomicFile("/nonexistent-directory/file"),
                    Catch::Contains("/nonexistent-directory/file: cannot be written"));
}
