// Names as bytes: what was packed comes back, and nothing that was not packed so is believed.
#include "analyzer/symbols/module_symbols.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdlib.h>
#include <sys/stat.h>
#include <utime.h>
#include <zstd.h>

#include "analyzer/symbols/symbol_cache.h"
#include "common/checksum.h"
#include "tests/support/seed.h"

using namespace heapprof::symbols;

namespace {

std::vector<ModuleSymbols> sample(std::size_t addresses = 50) {
  ModuleSymbols module;
  module.path = "/usr/lib/libsample.so";
  module.build_id_hex = "00112233445566778899aabbccddeeff00112233";
  module.map_bytes = 0x5000;
  module.warnings = {"a warning", "another"};
  module.why_unnamed = "because";
  for (std::size_t i = 0; i < addresses; ++i) {
    module.addresses.push_back(0x1000 + i * i * 7);
    auto& frames = module.frames.emplace_back();
    for (std::size_t f = 0; f < i % 3; ++f)
      frames.push_back({"inlined_" + std::to_string(f), "/src/a.h", int(i), true});
    frames.push_back(
        {i % 5 == 0 ? "" : "function_" + std::to_string(i / 4), i % 7 == 0 ? "" : "/src/b.cpp", int(i * 3), false});
    if (i % 35 == 0) {
      frames.back() = SourceFrame{};
      if (i != 0) frames.back().function_begin = module.addresses.back() - (i - 35);
    }
  }
  ModuleSymbols empty;
  empty.path = "/nothing";
  return {module, empty};
}

bool equal(const std::vector<ModuleSymbols>& a, const std::vector<ModuleSymbols>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ModuleSymbols& x, const ModuleSymbols& y) {
    const auto same_frames = [](const std::vector<SourceFrame>& f, const std::vector<SourceFrame>& g) {
      return std::equal(f.begin(), f.end(), g.begin(), g.end(), [](const SourceFrame& p, const SourceFrame& q) {
        return p.function == q.function && p.file == q.file && p.line == q.line && p.inlined == q.inlined &&
               p.function_begin == q.function_begin;
      });
    };
    return x.path == y.path && x.build_id_hex == y.build_id_hex && x.map_bytes == y.map_bytes &&
           x.warnings == y.warnings && x.why_unnamed == y.why_unnamed && x.addresses == y.addresses &&
           std::equal(x.frames.begin(), x.frames.end(), y.frames.begin(), y.frames.end(), same_frames);
  });
}

/// With the checksum made right again, so that damage gets as far as the decoder.
void seal(std::string& packed) {
  const std::uint64_t sum = heapprof::checksum(packed.data() + 32, packed.size() - 32);
  std::memcpy(packed.data() + 24, &sum, sizeof sum);
}

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/heapprof_names_XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t sum = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) sum += file.file_size();
  return sum;
}

}  // namespace

TEST_CASE("names come back as they were packed") {
  for (const auto& names : {sample(), std::vector<ModuleSymbols>(), std::vector<ModuleSymbols>(3)}) {
    const auto back = decode_symbols(encode_symbols(names));
    REQUIRE(back);
    CHECK(equal(*back, names));
  }
  const auto names = sample();
  CHECK(names[0].find(0x1000 + 7) != nullptr);
  CHECK(names[0].find(0x1000 + 8) == nullptr);
}

TEST_CASE("damaged names are refused, and hostile ones cost neither time nor memory") {
  const std::string whole = encode_symbols(sample());
  for (std::size_t size = 0; size < whole.size(); ++size) REQUIRE(!decode_symbols(whole.substr(0, size)));
  REQUIRE(!decode_symbols(whole + "x"));
  std::mt19937 random(heapprof::test::seed(7));
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    REQUIRE(!decode_symbols(damaged));
  }
  // zstd refuses most of what is wrong in it; what it lets pass the decoder has to bear.
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (unsigned i = 0, n = 1 + random() % 4; i < n; ++i)
      damaged[8 + random() % (damaged.size() - 8)] = char(random());
    const std::uint64_t packed_bytes = damaged.size() - 32;
    std::memcpy(damaged.data() + 16, &packed_bytes, sizeof packed_bytes);
    seal(damaged);
    if (const auto names = decode_symbols(damaged)) {
      for (const ModuleSymbols& module : *names) REQUIRE(module.addresses.size() == module.frames.size());
    }
  }
}

TEST_CASE("the cache gives what was stored, for that state of the files only") {
  Folder folder;
  const std::string id = sample()[0].build_id_hex;
  const SymbolCache cache(folder.path + "/deep/cache");
  CHECK(!cache.load(id, "state"));
  cache.store(id, "state", sample()[0]);
  const auto back = cache.load(id, "state");
  REQUIRE(back);
  CHECK(back->addresses == sample()[0].addresses);
  CHECK(!cache.load(id, "another state"));
  CHECK(!cache.load("00112233445566778899aabbccddeeff00112234", "state"));
  // What has no build id, or one that is none, is not kept.
  cache.store("", "state", sample()[0]);
  cache.store("../../../../tmp/escaped", "state", sample()[0]);
  CHECK(!cache.load("", "state"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path + "/deep/cache"), {}) == 1);
  SymbolCache("").store(id, "state", sample()[0]);
}

TEST_CASE("a damaged entry of the cache is dropped; a folder of others is not used") {
  Folder folder;
  const std::string id = sample()[0].build_id_hex, path = folder.path + "/cache";
  const SymbolCache cache(path);
  cache.store(id, "state", sample()[0]);
  const std::filesystem::path entry = std::filesystem::directory_iterator(path)->path();
  for (const char* text : {"", "no names at all, but some bytes that are longer than a header"}) {
    std::ofstream(entry, std::ios::binary | std::ios::trunc) << text;
    CHECK(!cache.load(id, "state"));
    CHECK(!std::filesystem::exists(entry));
  }
  cache.store(id, "state", sample()[0]);
  CHECK(cache.load(id, "state"));
  chmod(path.c_str(), 0777);
  CHECK(!cache.load(id, "state"));
  chmod(path.c_str(), 0700);
  // A link where the entry should be is not followed.
  std::filesystem::rename(entry, folder.path + "/moved");
  std::filesystem::create_symlink(folder.path + "/moved", entry);
  CHECK(!cache.load(id, "state"));
}

TEST_CASE("the cache stays below its limit, and what was used last stays") {
  Folder folder;
  const std::string id = sample()[0].build_id_hex;
  const std::uint64_t one = encode_symbols({sample(500)[0]}).size();
  const SymbolCache cache(folder.path + "/cache", 10 * one);
  for (int i = 0; i < 40; ++i) {
    cache.store(id, "state " + std::to_string(i), sample(500)[0]);
    if (i >= 4) CHECK(cache.load(id, "state 0").has_value());
    // Times of files are only as fine as the kernel's clock ticks.
    for (const auto& file : std::filesystem::directory_iterator(folder.path + "/cache")) {
      const auto used = std::filesystem::last_write_time(file.path());
      std::filesystem::last_write_time(file.path(), used - std::chrono::seconds(1));
    }
    REQUIRE(bytes_in(folder.path + "/cache") <= 11 * one);
  }
  CHECK(cache.load(id, "state 39").has_value());
  CHECK(!cache.load(id, "state 20").has_value());
}

TEST_CASE("A table that claims to unpack to more than its length allows, or that has empty names, is refused") {
  const auto table = [](const std::string& raw, std::uint64_t claimed) {
    std::string body(ZSTD_compressBound(raw.size()), '\0');
    body.resize(ZSTD_compress(body.data(), body.size(), raw.data(), raw.size(), 1));
    const std::uint64_t header[] = {0x31454d414e465048, claimed, body.size(),
                                    heapprof::checksum(body.data(), body.size())};
    return std::string(reinterpret_cast<const char*>(header), sizeof header) + body;
  };
  // A number of strings, each with its length in front, and no modules.
  CHECK(decode_symbols(table(std::string("\1\1a\0", 4), 4)));
  CHECK_FALSE(decode_symbols(table(std::string("\1\0\0", 3), 3)));
  const std::string zeros(std::size_t{32} << 20, '\0');
  CHECK_FALSE(decode_symbols(table(zeros, zeros.size())));
}
