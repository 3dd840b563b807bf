// Symbols as bytes: encoding and decoding give the same symbols, and damaged or hostile bytes are rejected.
#include "analyzer/symbols/module_symbols.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <zstd.h>

#include "common/checksum.h"
#include "tests/support/seed.h"
#include "tests/unit/symbols/sample_symbols.h"

using namespace heapprof::symbols;

namespace {

bool equal(const std::vector<ModuleSymbols>& a, const std::vector<ModuleSymbols>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ModuleSymbols& x, const ModuleSymbols& y) {
    const auto same_frames = [](const std::vector<SourceFrame>& f, const std::vector<SourceFrame>& g) {
      return std::equal(f.begin(), f.end(), g.begin(), g.end(), [](const SourceFrame& p, const SourceFrame& q) {
        return p.function == q.function && p.file == q.file && p.line == q.line && p.inlined == q.inlined &&
               p.function_begin == q.function_begin && p.definition_file == q.definition_file;
      });
    };
    return x.path == y.path && x.build_id_hex == y.build_id_hex && x.map_bytes == y.map_bytes &&
           x.warnings == y.warnings && x.why_unnamed == y.why_unnamed && x.addresses == y.addresses &&
           std::equal(x.frames.begin(), x.frames.end(), y.frames.begin(), y.frames.end(), same_frames);
  });
}

/// Corrects the checksum, so that the decoder reads damaged bytes.
void correct_checksum(std::string& encoded) {
  const std::uint64_t sum = heapprof::checksum(encoded.data() + 32, encoded.size() - 32);
  std::memcpy(encoded.data() + 24, &sum, sizeof sum);
}

}  // namespace

TEST_CASE("decoded symbols are the encoded ones") {
  for (const auto& names : {sample(), std::vector<ModuleSymbols>(), std::vector<ModuleSymbols>(3)}) {
    const auto back = decode_symbols(encode_symbols(names));
    REQUIRE(back);
    CHECK(equal(*back, names));
  }
  const auto names = sample();
  CHECK(names[0].find(0x1000 + 7) != nullptr);
  CHECK(names[0].find(0x1000 + 8) == nullptr);
}

TEST_CASE("files of definitions are encoded in a second format, if there are any") {
  CHECK(encode_symbols(sample()).starts_with("HPFNAME1"));
  const auto names = sample_with_definitions();
  const std::string encoded = encode_symbols(names);
  CHECK(encoded.starts_with("HPFNAME2"));
  const auto back = decode_symbols(encoded);
  REQUIRE(back);
  CHECK(equal(*back, names));
  CHECK_FALSE(equal(*back, sample()));
}

TEST_CASE("damaged symbols are rejected, without much time or memory") {
  const std::string whole = encode_symbols(GENERATE(sample(), sample_with_definitions()));
  for (std::size_t size = 0; size < whole.size(); ++size) REQUIRE(!decode_symbols(whole.substr(0, size)));
  REQUIRE(!decode_symbols(whole + "x"));
  std::mt19937 random(heapprof::test::seed(7));
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = whole;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 << random() % 8);
    REQUIRE(!decode_symbols(damaged));
  }
  // zstd detects most damage; the decoder must survive the rest.
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (unsigned i = 0, n = 1 + random() % 4; i < n; ++i)
      damaged[8 + random() % (damaged.size() - 8)] = char(random());
    const std::uint64_t compressed_bytes = damaged.size() - 32;
    std::memcpy(damaged.data() + 16, &compressed_bytes, sizeof compressed_bytes);
    correct_checksum(damaged);
    if (const auto names = decode_symbols(damaged)) {
      for (const ModuleSymbols& module : *names) REQUIRE(module.addresses.size() == module.frames.size());
    }
  }
}

TEST_CASE("a short table that refers to a long string in many places, or has many empty items, is rejected") {
  constexpr std::size_t kMaxBytes = 1 << 20;
  const std::string text(100'000, 'x');
  const auto is_accepted = [&](const ModuleSymbols& module, std::size_t modules) {
    const std::string encoded = encode_symbols(std::vector<ModuleSymbols>(modules, module));
    REQUIRE(decode_symbols(encoded));
    return decode_symbols(encoded, kMaxBytes).has_value();
  };
  for (const auto member : {&ModuleSymbols::path, &ModuleSymbols::build_id_hex, &ModuleSymbols::why_unnamed}) {
    ModuleSymbols module;
    module.*member = text;
    CHECK(is_accepted(module, 10));
    CHECK_FALSE(is_accepted(module, 11));
  }
  ModuleSymbols with_warnings;
  with_warnings.warnings.assign(10, text);
  CHECK(is_accepted(with_warnings, 1));
  CHECK_FALSE(is_accepted(with_warnings, 2));
  ModuleSymbols with_frames;
  with_frames.addresses = {0x1000, 0x2000};
  with_frames.frames.assign(2, {SourceFrame{text, text, 1, false}});
  CHECK(is_accepted(with_frames, 2));
  CHECK_FALSE(is_accepted(with_frames, 3));
  for (auto& frames : with_frames.frames) frames[0].definition_file = text + "y";
  CHECK(is_accepted(with_frames, 1));
  CHECK_FALSE(is_accepted(with_frames, 2));
  CHECK_FALSE(is_accepted(ModuleSymbols(), 10'000));
  with_warnings.warnings.assign(50'000, "");
  CHECK_FALSE(is_accepted(with_warnings, 1));
}

TEST_CASE("a table that expands to more than its length allows, or has empty strings, is rejected") {
  const auto table = [](const std::string& raw, std::uint64_t claimed) {
    std::string body(ZSTD_compressBound(raw.size()), '\0');
    body.resize(ZSTD_compress(body.data(), body.size(), raw.data(), raw.size(), 1));
    const std::uint64_t header[] = {0x31454d414e465048, claimed, body.size(),
                                    heapprof::checksum(body.data(), body.size())};
    return std::string(reinterpret_cast<const char*>(header), sizeof header) + body;
  };
  // The number of strings, each string with its length, no modules.
  CHECK(decode_symbols(table(std::string("\1\1a\0", 4), 4)));
  CHECK_FALSE(decode_symbols(table(std::string("\1\0\0", 3), 3)));
  const std::string zeros(std::size_t{32} << 20, '\0');
  CHECK_FALSE(decode_symbols(table(zeros, zeros.size())));
}
