// The symbol cache on disk.
#include "analyzer/symbols/symbol_cache.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <sys/stat.h>

#include "analyzer/base/atomic_file.h"
#include "tests/unit/symbols/sample_symbols.h"

using namespace heapprof::symbols;

namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/heapprof_symbol_cache_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }
  std::string path;
};

/// The temporary file of a process that was killed while it wrote `path`.
std::string left_behind(const std::string& path) {
  const std::string temporary = heapprof::AtomicFile(path).temporary_path();
  std::ofstream(temporary) << "partial";
  return temporary;
}

std::uint64_t bytes_in(const std::string& directory) {
  std::uint64_t sum = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory)) sum += file.file_size();
  return sum;
}

}  // namespace

TEST_CASE("a cached module is found for the same state of its files only") {
  TemporaryDirectory directory;
  const std::string id = sample()[0].build_id_hex;
  const SymbolCache cache(directory.path + "/deep/cache");
  CHECK(!cache.load(id, "state"));
  cache.store(id, "state", sample()[0]);
  const auto back = cache.load(id, "state");
  REQUIRE(back);
  CHECK(back->addresses == sample()[0].addresses);
  CHECK(!cache.load(id, "another state"));
  CHECK(!cache.load("00112233445566778899aabbccddeeff00112234", "state"));
  // Without a valid build ID nothing is cached.
  cache.store("", "state", sample()[0]);
  cache.store("../../escaped", "state", sample()[0]);
  CHECK(!cache.load("", "state"));
  // "deep", "cache" and the entry; nothing is beside them.
  CHECK(std::distance(std::filesystem::recursive_directory_iterator(directory.path), {}) == 3);
  SymbolCache("").store(id, "state", sample()[0]);
}

TEST_CASE("a damaged entry is removed, and a directory that others may write to is not used") {
  TemporaryDirectory directory;
  const std::string id = sample()[0].build_id_hex, path = directory.path + "/cache";
  const SymbolCache cache(path);
  cache.store(id, "state", sample()[0]);
  const std::filesystem::path entry = std::filesystem::directory_iterator(path)->path();
  for (const char* text : {"", "not symbols, but longer than their header"}) {
    std::ofstream(entry, std::ios::binary | std::ios::trunc) << text;
    CHECK(!cache.load(id, "state"));
    CHECK(!std::filesystem::exists(entry));
  }
  cache.store(id, "state", sample()[0]);
  CHECK(cache.load(id, "state"));
  chmod(path.c_str(), 0777);
  CHECK(!cache.load(id, "state"));
  chmod(path.c_str(), 0700);
  // A symbolic link in place of the entry is not followed.
  std::filesystem::rename(entry, directory.path + "/moved");
  std::filesystem::create_symlink(directory.path + "/moved", entry);
  CHECK(!cache.load(id, "state"));
}

TEST_CASE("temporary files that killed processes left behind are removed after an hour") {
  TemporaryDirectory directory;
  const std::string path = directory.path + "/cache", id = sample()[0].build_id_hex;
  const SymbolCache cache(path, 16);  // with this limit each entry lets it look at all files
  cache.store(id, "state", sample()[0]);
  const std::string old = left_behind(path + "/entry.names"), recent = left_behind(path + "/entry.names");
  std::filesystem::last_write_time(old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(2));
  cache.store(id, "another state", sample()[0]);
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(recent));
}

TEST_CASE("the cache does not exceed its limit, and keeps the entries used last") {
  TemporaryDirectory directory;
  const std::string id = sample()[0].build_id_hex;
  const std::uint64_t one = encode_symbols({sample(500)[0]}).size();
  const SymbolCache cache(directory.path + "/cache", 10 * one);
  for (int i = 0; i < 40; ++i) {
    cache.store(id, "state " + std::to_string(i), sample(500)[0]);
    if (i >= 4) CHECK(cache.load(id, "state 0").has_value());
    // The resolution of file times is only that of the kernel's clock ticks.
    for (const auto& file : std::filesystem::directory_iterator(directory.path + "/cache")) {
      const auto used = std::filesystem::last_write_time(file.path());
      std::filesystem::last_write_time(file.path(), used - std::chrono::seconds(1));
    }
    REQUIRE(bytes_in(directory.path + "/cache") <= 11 * one);
  }
  CHECK(cache.load(id, "state 39").has_value());
  CHECK(!cache.load(id, "state 20").has_value());
}
