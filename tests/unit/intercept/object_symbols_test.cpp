// What the recorder knows of the objects of this process before it decides about patches.
#include "preload/intercept/object_symbols.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <string>

#include "preload/sys/proc_maps.h"

using namespace heapprof;
using intercept::ObjectSymbols;

// An allocator that the program exports: found by its names alone.
extern "C" {
[[gnu::visibility("default")]] void* tc_malloc(std::size_t size) { return std::malloc(size); }
[[gnu::visibility("default")]] void tc_free(void* block) { std::free(block); }
}
[[gnu::visibility("default")]] void operator delete(void* block, const std::nothrow_t&) noexcept { std::free(block); }

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

TEST_CASE("Operators new and delete belong to an allocator only beside its other functions") {
  // libstdc++ exports operators, and calls malloc of another object.
  const link_map& libstdcxx = library_of("_Znwm");
  CHECK(symbols_of(libstdcxx, libstdcxx.l_name)->count == 0);
  // The test program is linked with an allocator that has both, and exports them.
  const auto own = symbols_of(program(), "/proc/self/exe");
  std::set<std::string> names;
  for (std::size_t i = 0; i < own->count; ++i) names.insert(own->functions[i].name);
  for (const char* name : {"tc_malloc", "tc_free", "_ZdlPvRKSt9nothrow_t"}) {
    INFO(name);
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("The file of an object with functions is identified, as read and as mapped") {
  const link_map& libc = library_of("fopen");
  const auto symbols = symbols_of(libc, libc.l_name);
  REQUIRE(symbols->count != 0);
  sys::FileIdentity file;
  REQUIRE(sys::identify(libc.l_name, file));
  CHECK(symbols->file == file);
  sys::Mapping mapping;
  char path[4096];
  REQUIRE(sys::find_mapping(symbols->text.begin, mapping, path, sizeof path));
  CHECK(symbols->mapped_file == sys::FileIdentity{mapping.device, mapping.inode});
  CHECK(symbols->mapped_file.inode != 0);
}
