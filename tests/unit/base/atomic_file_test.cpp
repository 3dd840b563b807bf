// A file that gets its name only when it is complete.
#include <catch2/catch.hpp>

#include <sys/stat.h>

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

mode_t mode_of(const std::string& path) {
  struct stat status {};
  CHECK(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
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

TEST_CASE("An output that a user names has the mode that the umask leaves, or that of the old file") {
  const heapprof::test::TemporaryFile path;
  const auto write = [&] {
    AtomicFile file(path.path(), 0666);
    file.append("new");
    file.finish();
    CHECK(contents_of(path.path()) == "new");
    return mode_of(path.path());
  };
  const mode_t before = ::umask(027);
  std::filesystem::remove(path.path());
  CHECK(write() == 0640);
  REQUIRE(::chmod(path.path().c_str(), 0604) == 0);
  CHECK(write() == 0604);
  ::umask(before);
}

TEST_CASE("An output that a user names replaces the target of a symbolic link") {
  const heapprof::test::TemporaryFile target, link;
  std::filesystem::remove(link.path());
  std::filesystem::create_symlink(std::filesystem::path(target.path()).filename(), link.path());
  const auto write = [&] {
    AtomicFile file(link.path(), 0666);
    file.append("new");
    file.finish();
    CHECK(std::filesystem::is_symlink(link.path()));
    CHECK(contents_of(target.path()) == "new");
  };
  write();
  std::filesystem::remove(target.path());
  write();
}

TEST_CASE("An output that a user names is no pipe and no directory") {
  const heapprof::test::TemporaryFile path, link;
  std::filesystem::remove(path.path());
  REQUIRE(::mkfifo(path.path().c_str(), 0600) == 0);
  std::filesystem::remove(link.path());
  std::filesystem::create_symlink(path.path(), link.path());
  for (const std::string& name : {path.path(), link.path()})
    CHECK_THROWS_WITH(AtomicFile(name, 0666), Catch::StartsWith(name + ": is not a regular file"));
  CHECK(std::filesystem::is_fifo(path.path()));
  CHECK_THROWS_WITH(AtomicFile("/tmp", 0666), "/tmp: cannot be written: Is a directory");
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
