// Imports of a program that is not position-independent and takes their addresses.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "preload/intercept/object_symbols.h"
#include "preload/real/dynamic_symbols.h"

using namespace heapprof;
using intercept::ObjectSymbols;

namespace {

struct PlainReader {
  template <typename T>
  bool read(const T* from, T& to) noexcept {
    to = *from;
    return true;
  }
};

}  // namespace

TEST_CASE("An imported function whose address the program takes is an import") {
  // Not constants, so that the code contains these addresses.
  void* (*volatile load)(const char*, int) = dlopen;
  int (*volatile purge)(void*, std::size_t, int) = madvise;
  REQUIRE(purge(nullptr, 0, MADV_NORMAL) == 0);
  void* const program = load(nullptr, RTLD_NOW);
  REQUIRE(program != nullptr);
  const auto& map = *static_cast<const link_map*>(program);

  // What this test is about: no symbol before those in the hash table is one of these functions.
  PlainReader plain;
  real::DynamicSymbols object;
  REQUIRE(real::read_dynamic_symbols(map, plain, object));
  REQUIRE(object.gnu_hash != nullptr);
  const std::uint32_t first_hashed = object.gnu_hash[1];
  REQUIRE(first_hashed > 1);
  for (std::uint32_t i = 0; i < first_hashed; ++i) {
    const std::string name = object.names + object.symbols[i].st_name;
    CHECK(name != "dlopen");
    CHECK(name != "madvise");
  }

  sys::GuardedReader reader;
  intercept::Scratch scratch{};
  auto symbols = std::make_unique<ObjectSymbols>();
  REQUIRE(intercept::read_object_symbols("/proc/self/exe", map, reader, scratch, {true, true}, *symbols));
  scratch.release();
  CHECK(symbols->imports_known);
  CHECK(symbols->imports_dlopen);
  CHECK(symbols->imports_madvise);
}
