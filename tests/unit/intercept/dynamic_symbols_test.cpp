// Symbols of a hash table in the format of System V.
#include "preload/real/dynamic_symbols.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>

using namespace heapprof::real;

namespace {

/// Copies, and fails after more calls than any search may need.
class Reader {
 public:
  template <typename T>
  bool read(const T* from, T& to) noexcept {
    if (++reads_ > kMaxReads) return false;
    std::memcpy(&to, from, sizeof to);
    return true;
  }
  bool was_endless() const noexcept { return reads_ > kMaxReads; }

 private:
  static constexpr std::uint32_t kMaxReads = 1u << 20;
  std::uint32_t reads_ = 0;
};

/// As large as the pieces that are read.
struct Names {
  alignas(256) char text[256];
};

constexpr Names kNames = {"\0first\0second\0third"};
constexpr std::uint32_t kFirst = 1, kSecond = 7;  // where names begin

ElfW(Sym) function(std::uint32_t name) {
  ElfW(Sym) symbol{};
  symbol.st_name = name;
  symbol.st_info = STT_FUNC;
  symbol.st_shndx = 1;
  symbol.st_value = 0x1000 + name;
  return symbol;
}

}  // namespace

TEST_CASE("A symbol is found in its chain, and the search for another one ends also if the chain is a circle") {
  const ElfW(Sym) symbols[] = {{}, function(kFirst), function(kSecond)};
  // One bucket, whose chain begins with symbol 1; the number of symbols; then the next symbol of each.
  const bool is_circle = GENERATE(false, true);
  const std::uint32_t hash[] = {1, 3, 1, 0, 2, is_circle ? 1u : 0u};
  DynamicSymbols object;
  object.symbols = symbols;
  object.names = kNames.text;
  object.sysv_hash = hash;
  ElfW(Sym) found{};
  Reader reader;
  CHECK(find_symbol(object, "second", reader, found));
  CHECK(found.st_value == 0x1000 + kSecond);
  CHECK_FALSE(find_symbol(object, "third", reader, found));
  CHECK_FALSE(reader.was_endless());
}
