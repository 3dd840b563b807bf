// The reader of /proc/self/maps.
#include "preload/sys/proc_maps.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace heapprof;

namespace {

const int g_in_program = 1;

/// Reads all lines through a buffer of `bytes` bytes until one contains `address`.
bool find(std::uint64_t address, std::size_t bytes, sys::Mapping& mapping, std::string& path) {
  std::string buffer(bytes, '\0');
  char text[4096];
  sys::MapsReader reader(buffer.data(), buffer.size());
  bool found = false;
  while (!found && reader.next(mapping, text, sizeof text)) found = address >= mapping.begin && address < mapping.end;
  reader.close();
  path = text;
  return found;
}

}  // namespace

TEST_CASE("the program's mapping has its file and inode, however small the buffer is") {
  const auto address = reinterpret_cast<std::uint64_t>(&g_in_program);
  char program[4096] = {};
  REQUIRE(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  struct stat status {};
  REQUIRE(stat(program, &status) == 0);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{8192}}) {
    sys::Mapping mapping;
    std::string path;
    REQUIRE(find(address, bytes, mapping, path));
    CHECK(path == program);
    CHECK(mapping.inode == status.st_ino);
    CHECK(mapping.device != 0);
    CHECK(mapping.readable);
    CHECK_FALSE(mapping.writable);
    CHECK_FALSE(mapping.shared);
    CHECK_FALSE(mapping.path_truncated);
  }
}

TEST_CASE("a mapping has its protection, and whether it is shared") {
  struct Expected {
    int protection;
    int flags;
  };
  for (const Expected& one : {Expected{PROT_READ | PROT_WRITE, MAP_PRIVATE}, Expected{PROT_NONE, MAP_PRIVATE},
                              Expected{PROT_READ | PROT_EXEC, MAP_PRIVATE}, Expected{PROT_READ, MAP_SHARED}}) {
    void* const memory = mmap(nullptr, 4096, one.protection, one.flags | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    sys::Mapping mapping;
    std::string path;
    REQUIRE(find(reinterpret_cast<std::uint64_t>(memory), 4096, mapping, path));
    CHECK(mapping.readable == ((one.protection & PROT_READ) != 0));
    CHECK(mapping.writable == ((one.protection & PROT_WRITE) != 0));
    CHECK(mapping.executable == ((one.protection & PROT_EXEC) != 0));
    CHECK(mapping.shared == (one.flags == MAP_SHARED));
    munmap(memory, 4096);
  }
}

TEST_CASE("a path that does not fit is truncated and marked") {
  sys::Mapping mapping;
  char path[8];
  REQUIRE(sys::find_mapping(reinterpret_cast<std::uint64_t>(&g_in_program), mapping, path, sizeof path));
  CHECK(std::string(path).size() == 7);
  CHECK(mapping.path_truncated);
}

TEST_CASE("a mapping is found by the name that the kernel gives it") {
  int local = 0;
  sys::Mapping mapping;
  REQUIRE(sys::find_mapping("[stack]", mapping));
  const auto address = reinterpret_cast<std::uint64_t>(&local);
  CHECK((address >= mapping.begin && address < mapping.end));
  CHECK(mapping.inode == 0);
}

TEST_CASE("readers of one descriptor do not disturb each other, as a forked child and its parent") {
  const int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  const auto begins = [](sys::MapsReader& reader, std::size_t lines) {
    std::vector<std::uint64_t> result;
    char path[256];
    for (sys::Mapping mapping; result.size() < lines && reader.next(mapping, path, sizeof path);)
      result.push_back(mapping.begin);
    return result;
  };
  char buffer[512], other_buffer[512];
  sys::MapsReader alone(buffer, sizeof buffer, descriptor);
  const std::vector<std::uint64_t> all = begins(alone, 1000);
  sys::MapsReader reader(buffer, sizeof buffer, descriptor);
  std::vector<std::uint64_t> read = begins(reader, all.size() / 2);
  sys::MapsReader other(other_buffer, sizeof other_buffer, descriptor);
  CHECK(begins(other, 3) == std::vector<std::uint64_t>{all[0], all[1], all[2]});
  const std::vector<std::uint64_t> rest = begins(reader, 1000);
  read.insert(read.end(), rest.begin(), rest.end());
  CHECK(read == all);
  close(descriptor);
}
