// The reader of /proc/self/maps.
#include "preload/sys/proc_maps.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/skip_case.h"
#include "tests/support/system_calls.h"

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

bool same(const sys::Mapping& a, const sys::Mapping& b) {
  return a.begin == b.begin && a.end == b.end && a.file_offset == b.file_offset && a.device == b.device &&
         a.inode == b.inode && a.readable == b.readable && a.writable == b.writable && a.executable == b.executable &&
         a.shared == b.shared;
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

TEST_CASE("the kernel's answer about an address equals the line of the file") {
  void* const shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void* const none = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE((shared != MAP_FAILED && none != MAP_FAILED));
  const int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  REQUIRE(descriptor >= 0);
  unsigned answers = 0;
  for (const void* each : {static_cast<const void*>(&g_in_program), reinterpret_cast<const void*>(&std::fopen),
                           static_cast<const void*>(shared), static_cast<const void*>(none),
                           reinterpret_cast<const void*>(getauxval(AT_SYSINFO_EHDR))}) {
    const auto address = reinterpret_cast<std::uint64_t>(each);
    if (address == 0) continue;  // no vDSO
    sys::Mapping line, answer, mapping;
    std::string line_path;
    REQUIRE(find(address, 4096, line, line_path));
    INFO(line_path);
    char path[4096];
    REQUIRE(sys::find_mapping(address, mapping, path, sizeof path));
    CHECK(same(mapping, line));
    CHECK(path == line_path);
    if (!sys::query_mapping(descriptor, address, answer, path, sizeof path)) continue;
    ++answers;
    CHECK(same(answer, line));
    CHECK(path == line_path);
    CHECK_FALSE(answer.path_truncated);
    char no_path[1];
    CHECK(sys::query_mapping(descriptor, address, answer, no_path, sizeof no_path));
    CHECK(same(answer, line));
  }
  if (answers == 0) test::skip_case("the kernel has no PROCMAP_QUERY (Linux 6.11)");
  close(descriptor);
  munmap(shared, 4096);
  munmap(none, 4096);
}

TEST_CASE("an address that is not mapped has no mapping") {
  sys::Mapping mapping;
  char path[64];
  CHECK_FALSE(sys::find_mapping(8, mapping, path, sizeof path));
}

TEST_CASE("where the kernel does not answer, the lines are read") {
  const auto address = reinterpret_cast<std::uint64_t>(&g_in_program);
  sys::Mapping line, mapping, stack;
  std::string line_path;
  REQUIRE(find(address, 4096, line, line_path));
  char path[4096] = {};
  bool by_address = false, by_name = false, queried = false;
  const bool replaced = test::with_replaced_calls(
      {SYS_ioctl}, [](test::SystemCall&) { return long{-ENOTTY}; },
      [&] {
        const int descriptor = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        queried = sys::query_mapping(descriptor, address, mapping, path, sizeof path);
        close(descriptor);
        by_address = sys::find_mapping(address, mapping, path, sizeof path);
        by_name = sys::find_mapping("[stack]", stack, address);
      });
  if (!replaced) return;
  CHECK_FALSE(queried);
  CHECK(by_address);
  CHECK(same(mapping, line));
  CHECK(path == line_path);
  CHECK(by_name);
  CHECK(stack.begin != 0);
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

TEST_CASE("a mapping is found by its name wherever the search begins") {
  sys::Mapping data, mapping;
  if (!sys::find_mapping("[vvar]", data)) return test::skip_case("this kernel has no mapping [vvar]");
  for (const std::uint64_t next : {std::uint64_t{getauxval(AT_SYSINFO_EHDR)}, data.end,
                                   reinterpret_cast<std::uint64_t>(&g_in_program), std::uint64_t{1}}) {
    REQUIRE(sys::find_mapping("[vvar]", mapping, next));
    CHECK(mapping.begin == data.begin);
    CHECK(mapping.end == data.end);
  }
  CHECK_FALSE(sys::find_mapping("[no such]", mapping, data.end));
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
