#include "analyzer/launch/trace_pattern.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "analyzer/launch/recorder_library.h"

using namespace heapprof::launch;

namespace {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/heapprof_output_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
    before_ = std::filesystem::current_path();
  }
  ~Folder() {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(path_);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::string make(const std::string& name) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << "x";
    return path;
  }

 private:
  std::string path_;
  std::filesystem::path before_;
};

}  // namespace

TEST_CASE("a relative pattern is made absolute, and percent signs in its folder are escaped") {
  Folder folder;
  std::filesystem::create_directory(folder / "100%e");
  std::filesystem::current_path(folder / "100%e");
  CHECK(absolute_pattern("x.%p") == folder / "100%%e/x.%p");
  CHECK(absolute_pattern("/x.%p") == "/x.%p");
}

TEST_CASE("a relative pattern in a folder that was removed has no absolute path") {
  Folder folder;
  std::filesystem::create_directory(folder / "gone");
  std::filesystem::current_path(folder / "gone");
  std::filesystem::remove(folder / "gone");
  CHECK(absolute_pattern("x.%p").empty());
  CHECK(absolute_pattern("/x.%p") == "/x.%p");
}

TEST_CASE("a name is fixed when nothing in it depends on the process") {
  CHECK(fixed_name("/a/b") == "/a/b");
  CHECK(fixed_name("/a/100%%") == "/a/100%");
  CHECK(fixed_name("/a/%x%") == "/a/%x%");
  for (const char* pattern : {"/a/%e", "/%p/b", "/a%t", "/%h"}) CHECK(fixed_name(pattern).empty());
}

TEST_CASE("an output that cannot be written is rejected before the program starts") {
  Folder folder;
  std::string error;
  CHECK(check_writable(folder / "x.heapprof", error));
  CHECK(check_writable(folder / "not/yet/there/%e.%p", error));
  CHECK(check_writable(folder / "%h/x", error));
  CHECK(std::filesystem::is_empty(folder / ""));
  folder.make("file");
  for (const std::string& pattern : {folder / "file/x.heapprof", folder / "file/%e/x",
                                     std::string("/proc/x.heapprof"), folder / "", folder / ".", std::string("/")}) {
    INFO(pattern);
    error.clear();
    CHECK(!check_writable(pattern, error));
    CHECK(!error.empty());
    CHECK(error.find('\n') == std::string::npos);
  }
  if (geteuid() != 0) {
    std::filesystem::create_directory(folder / "locked");
    REQUIRE(chmod((folder / "locked").c_str(), 0500) == 0);
    CHECK(!check_writable(folder / "locked/x", error));
    CHECK(!check_writable(folder / "locked/new/x", error));
  }
}

TEST_CASE("an existing file is replaced only with --force, other kinds of files never") {
  Folder folder;
  std::string error;
  CHECK(remove_existing(folder / "new", false, error));
  const std::string file = folder.make("file");
  CHECK(!remove_existing(file, false, error));
  CHECK(error.find("--force") != std::string::npos);
  CHECK(std::filesystem::exists(file));
  CHECK(remove_existing(file, true, error));
  CHECK(!std::filesystem::exists(file));
  REQUIRE(symlink("/nowhere", (folder / "dangling").c_str()) == 0);
  CHECK(!remove_existing(folder / "dangling", false, error));
  CHECK(remove_existing(folder / "dangling", true, error));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(!remove_existing(folder / "pipe", true, error));
  CHECK(std::filesystem::exists(folder / "pipe"));
}

TEST_CASE("the files that a process may have created by a pattern are found") {
  Folder folder;
  const auto found = [](const std::string& pattern, int pid) {
    std::vector<std::string> paths = find_files(pattern, pid);
    std::sort(paths.begin(), paths.end());
    return paths;
  };
  using Paths = std::vector<std::string>;
  const std::string one = folder.make("t.ls.12.heapprof"), again = folder.make("t.ls.12.heapprof.1"),
                    other = folder.make("t.cat.12.heapprof.22");
  folder.make("t.ls.13.heapprof");
  folder.make("t.ls.12.heapprof.old");
  folder.make("t.ls.12.heapprof.1.gz");
  CHECK(found(folder / "t.%e.%p.heapprof", 12) == Paths{other, one, again});
  const std::string in_folder = folder.make("host/12.1700000000");
  CHECK(found(folder / "%h/%p.%t", 12) == Paths{in_folder});
  const std::string plain = folder.make("a[b]*?\\"), plain_again = folder.make("a[b]*?\\.3");
  folder.make("ab*?\\");
  CHECK(found(folder / "a[b]*?\\", 12) == Paths{plain, plain_again});
  CHECK(found(folder / "missing", 12).empty());
}

TEST_CASE("the recorder is the first preloaded library") {
  CHECK(preload_list("/a/libheapprof.so", "") == "/a/libheapprof.so");
  CHECK(preload_list("/a/libheapprof.so", "/b.so") == "/a/libheapprof.so:/b.so");
  CHECK(preload_list("/a/libheapprof.so", " /b.so::c.so ") == "/a/libheapprof.so:/b.so:c.so");
  CHECK(preload_list("/a/libheapprof.so", "/b.so:/a/libheapprof.so") == "/a/libheapprof.so:/b.so");
}
