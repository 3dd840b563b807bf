#include "analyzer/symbols/sysroot.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

using heapprof::symbols::path_in_sysroot;

TEST_CASE("a path does not leave the sysroot, whatever its symbolic links are") {
  char directory[] = "/tmp/heapprof_sysroot_XXXXXX";
  REQUIRE(mkdtemp(directory) != nullptr);
  const std::string root = directory;
  std::filesystem::create_directories(root + "/usr/lib/x");
  std::ofstream(root + "/usr/lib/x/real.so") << "x";
  REQUIRE(symlink("usr/lib", (root + "/lib").c_str()) == 0);
  REQUIRE(symlink("/usr/lib/x", (root + "/absolute").c_str()) == 0);
  REQUIRE(symlink("../../../../../usr/lib/x/real.so", (root + "/usr/lib/escape.so").c_str()) == 0);
  REQUIRE(symlink("loop", (root + "/loop").c_str()) == 0);

  CHECK(path_in_sysroot("", "/lib/x/real.so") == "/lib/x/real.so");
  CHECK(path_in_sysroot(root, "/usr/lib/x/real.so") == root + "/usr/lib/x/real.so");
  CHECK(path_in_sysroot(root + "/", "/usr/./lib//x/real.so") == root + "/usr/lib/x/real.so");
  CHECK(path_in_sysroot(root, "/lib/x/real.so") == root + "/usr/lib/x/real.so");
  CHECK(path_in_sysroot(root, "/absolute/real.so") == root + "/usr/lib/x/real.so");
  CHECK(path_in_sysroot(root, "/lib/escape.so") == root + "/usr/lib/x/real.so");
  CHECK(path_in_sysroot(root, "/../../etc/passwd") == root + "/etc/passwd");
  CHECK(path_in_sysroot(root, "/missing/file") == root + "/missing/file");
  CHECK(path_in_sysroot(root, "/loop").starts_with(root));
  std::filesystem::remove_all(root);
}
