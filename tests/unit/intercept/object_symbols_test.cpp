// What the recorder knows of the objects of this process before it decides about patches.
#include "preload/intercept/object_symbols.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <memory>

using namespace heapprof;
using intercept::ObjectSymbols;

namespace {

const link_map& program() { return *static_cast<link_map*>(dlopen(nullptr, RTLD_NOW)); }

const link_map& library_of(const char* function) {
  Dl_info info;
  void* map = nullptr;
  REQUIRE(dladdr1(dlsym(RTLD_DEFAULT, function), &info, &map, RTLD_DL_LINKMAP) != 0);
  return *static_cast<link_map*>(map);
}

std::unique_ptr<ObjectSymbols> symbols_of(const link_map& map, const char* path,
                                          const intercept::WantedImports& wanted = {true, true}) {
  sys::GuardedReader reader;
  intercept::Scratch scratch{};
  auto symbols = std::make_unique<ObjectSymbols>();
  REQUIRE(intercept::read_object_symbols(path, map, reader, scratch, wanted, *symbols));
  scratch.release();
  return symbols;
}

}  // namespace

TEST_CASE("It is known whether an object imports madvise, as allocators do") {
  REQUIRE(madvise(nullptr, 0, MADV_NORMAL) == 0);  // so the program imports it
  const auto own = symbols_of(program(), "/proc/self/exe");
  CHECK(own->imports_known);
  CHECK(own->imports_madvise);
  const link_map& libstdcxx = library_of("_Znwm");
  const auto other = symbols_of(libstdcxx, libstdcxx.l_name);
  CHECK(other->imports_known);
  CHECK_FALSE(other->imports_madvise);
  // libc defines it.
  const link_map& libc = library_of("fopen");
  CHECK_FALSE(symbols_of(libc, libc.l_name)->imports_madvise);
}

TEST_CASE("An object whose imports were not looked for may have any") {
  const link_map& libstdcxx = library_of("_Znwm");
  CHECK_FALSE(symbols_of(libstdcxx, libstdcxx.l_name, {false, false})->imports_known);
}
