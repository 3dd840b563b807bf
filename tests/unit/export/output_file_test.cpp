// A file with the name of an output is replaced only by a complete one, and keeps what else it is: mode, links,
// pipes.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "analyzer/export/output_file.h"
#include "tests/support/skip_case.h"

using heapprof::exporter::OutputFile;
namespace fs = std::filesystem;

namespace {

/// A directory with the file "old".
struct Directory {
  Directory() {
    char name[] = "/tmp/heapprof-output-XXXXXX";
    REQUIRE(::mkdtemp(name) != nullptr);
    path = name;
    std::ofstream(old()) << "old";
  }
  ~Directory() { fs::remove_all(path); }
  fs::path old() const { return path / "old"; }
  long files() const { return std::distance(fs::directory_iterator(path), fs::directory_iterator()); }
  fs::path path;
};

std::string contents_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, const char* text, mode_t mode = 0666) {
  OutputFile file(path, mode);
  file.append(text);
  file.finish();
}

void write_half(const fs::path& path) {
  OutputFile file(path, 0666);
  file.append("half");
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  CHECK(::stat(path.c_str(), &status) == 0);
  return status;
}

mode_t mode_of(const fs::path& path) { return status_of(path).st_mode & 07777; }

}  // namespace

TEST_CASE("a file is replaced when the new one is complete") {
  const Directory directory;
  OutputFile file(directory.old(), 0666);
  file.append("new");
  CHECK(contents_of(directory.old()) == "old");
  file.finish();
  CHECK(contents_of(directory.old()) == "new");
  CHECK(directory.files() == 1);
}

TEST_CASE("after a failure the old file is as it was, and a new file does not exist") {
  const Directory directory;
  write_half(directory.old());
  write_half(directory.path / "new");
  CHECK(contents_of(directory.old()) == "old");
  CHECK(directory.files() == 1);
}

TEST_CASE("the mode of a new file is without the umask, and that of an old file stays") {
  const Directory directory;
  const mode_t before = ::umask(027);
  write(directory.path / "new", "new");
  write(directory.path / "private", "new", 0600);
  ::chmod(directory.old().c_str(), 0604);
  write(directory.old(), "new");
  ::umask(before);
  CHECK(mode_of(directory.path / "new") == 0640);
  CHECK(mode_of(directory.path / "private") == 0600);
  CHECK(mode_of(directory.old()) == 0604);
}

TEST_CASE("the owner of an old file stays") {
  if (::geteuid() != 0) return heapprof::test::skip_case("only root can change the owner of a file");
  const Directory directory;
  REQUIRE(::chown(directory.old().c_str(), 1234, 2345) == 0);
  write(directory.old(), "new");
  CHECK(status_of(directory.old()).st_uid == 1234);
  CHECK(status_of(directory.old()).st_gid == 2345);
}

TEST_CASE("the target of a symbolic link is written, whether it exists or not") {
  const Directory directory;
  fs::create_directory(directory.path / "below");
  fs::create_symlink("../old", directory.path / "below" / "first");
  fs::create_symlink("below/first", directory.path / "link");
  fs::create_symlink("new", directory.path / "dangling");
  write_half(directory.path / "link");
  write_half(directory.path / "dangling");
  CHECK(contents_of(directory.old()) == "old");
  CHECK_FALSE(fs::exists(directory.path / "new"));
  write(directory.path / "link", "through the link");
  write(directory.path / "dangling", "created");
  CHECK(fs::is_symlink(directory.path / "link"));
  CHECK(fs::is_symlink(directory.path / "below" / "first"));
  CHECK(contents_of(directory.old()) == "through the link");
  CHECK(fs::is_symlink(directory.path / "dangling"));
  CHECK(contents_of(directory.path / "new") == "created");
}

TEST_CASE("a file with two names is written in place, and empty after a failure") {
  const Directory directory;
  fs::create_hard_link(directory.old(), directory.path / "other");
  write(directory.old(), "new");
  CHECK(contents_of(directory.path / "other") == "new");
  write_half(directory.old());
  CHECK(contents_of(directory.path / "other").empty());
}

TEST_CASE("a file that this process has open is written in place") {
  const Directory directory;
  const int descriptor = ::open(directory.old().c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  write("/dev/fd/" + std::to_string(descriptor), "new");
  CHECK(::write(descriptor, ", more", 6) == 6);
  ::close(descriptor);
  CHECK(contents_of(directory.old()) == "new, more");
}

TEST_CASE("devices and pipes are written in place, and stay") {
  const Directory directory;
  const fs::path pipe = directory.path / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  write(pipe, "new");
  char bytes[8] = {};
  CHECK(::read(reader, bytes, sizeof bytes) == 3);
  ::close(reader);
  CHECK(std::string(bytes) == "new");
  CHECK(fs::is_fifo(pipe));
  write("/dev/null", "new");
  CHECK(fs::is_character_file("/dev/null"));
}

TEST_CASE("a long name leaves no space for a temporary one: the file is written in place") {
  const Directory directory;
  const fs::path name = directory.path / std::string(250, 'n');
  write(name, "new");
  CHECK(contents_of(name) == "new");
}

TEST_CASE("a path that is no file is an error with its name") {
  const Directory directory;
  const auto failure_of = [](const fs::path& path) {
    try {
      write(path, "new");
    } catch (const heapprof::FileError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const fs::path& path : {directory.path, directory.path / ""})
    CHECK(failure_of(path) == path.string() + ": cannot be written: Is a directory");
  CHECK(failure_of(directory.path / "missing" / "x") ==
        (directory.path / "missing" / "x").string() + ": cannot be written: No such file or directory");
  CHECK(failure_of("") == ": cannot be written: No such file or directory");
}
