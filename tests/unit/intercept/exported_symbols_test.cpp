// Exported functions of the libraries of this process, found by the hashes of their names.
#include "preload/intercept/exported_symbols.h"

#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace heapprof;
using intercept::ExportedSymbols;

namespace {

const link_map& object_of(const char* function) {
  Dl_info info;
  void* map = nullptr;
  REQUIRE(dladdr1(dlsym(RTLD_DEFAULT, function), &info, &map, RTLD_DL_LINKMAP) != 0);
  return *static_cast<link_map*>(map);
}

struct Opened {
  explicit Opened(const link_map& map, bool directly = false) : symbols(reader, scratch) {
    if (directly) reader.read_directly();
    REQUIRE(symbols.open(map));
  }
  ~Opened() {
    reader.close();
    scratch.release();
  }
  bool has(const char* name, void** address = nullptr) {
    bool found = false;
    const std::uint32_t hash = real::gnu_hash(name);
    REQUIRE(symbols.find(&hash, 1, [&](const ElfW(Sym) & symbol, const char* found_name) {
      if (std::string(name) != found_name || symbol.st_shndx == SHN_UNDEF) return;
      found = true;
      if (address != nullptr) *address = reinterpret_cast<void*>(symbol.st_value);
    }));
    return found;
  }
  sys::GuardedReader reader;
  intercept::Scratch scratch{};
  ExportedSymbols symbols;
};

}  // namespace

TEST_CASE("Exported functions are found, and others are not") {
  const link_map& libc = object_of("fopen");
  Opened opened(libc);
  for (const char* name : {"malloc", "free", "posix_memalign", "fopen", "qsort_r"}) {
    void* value = nullptr;
    INFO(name);
    REQUIRE(opened.has(name, &value));
    // libc has no other version of these.
    CHECK(static_cast<char*>(value) + libc.l_addr == dlsym(RTLD_DEFAULT, name));
  }
  for (const char* name : {"je_malloc", "_Znwm", "no_such_function", ""}) CHECK_FALSE(opened.has(name));
  CHECK(Opened(object_of("_Znwm")).has("_ZdlPvm"));
}

TEST_CASE("Many hashes give each symbol that has one of them") {
  const std::vector<const char*> names{"malloc", "no_such_function", "free", "je_malloc", "fopen"};
  std::vector<std::uint32_t> hashes;
  for (const char* name : names) hashes.push_back(real::gnu_hash(name));
  std::vector<std::string> found;
  Opened opened(object_of("fopen"));
  REQUIRE(opened.symbols.find(hashes.data(), hashes.size(),
                              [&](const ElfW(Sym)&, const char* name) { found.push_back(name); }));
  std::sort(found.begin(), found.end());
  CHECK(found == std::vector<std::string>{"fopen", "free", "malloc"});
}

TEST_CASE("Functions that an object calls in others are its imports") {
  Opened opened(object_of("_Znwm"));
  const auto imports = [&](const char* name) {
    bool imported = false;
    REQUIRE(opened.symbols.read_imports(&name, 1, &imported));
    return imported;
  };
  CHECK(imports("malloc"));
  CHECK_FALSE(imports("no_such_function"));
  CHECK_FALSE(imports("_Znwm"));  // defined by this object
}

TEST_CASE("Several imports are looked for at once") {
  Opened opened(object_of("_Znwm"));
  // The first one is found, which must not end the search for the others.
  const char* const names[] = {"malloc", "no_such_function", "free", "_Znwm"};
  bool imported[] = {false, true, false, true};
  REQUIRE(opened.symbols.read_imports(names, 4, imported));
  CHECK(imported[0]);
  CHECK_FALSE(imported[1]);
  CHECK(imported[2]);
  CHECK_FALSE(imported[3]);
  const char* const too_many[ExportedSymbols::kMaxImports + 1] = {"malloc", "free", "malloc", "free", "malloc"};
  bool unknown[ExportedSymbols::kMaxImports + 1] = {};
  CHECK_FALSE(opened.symbols.read_imports(too_many, ExportedSymbols::kMaxImports + 1, unknown));
}

TEST_CASE("Tables that are read directly have the same symbols and imports") {
  for (const char* function : {"fopen", "_Znwm"}) {
    const link_map& map = object_of(function);
    Opened copied(map), direct(map, true);
    unsigned found = 0;
    for (const char* name : {"malloc", "free", "fopen", "qsort_r", "_Znwm", "_ZdlPvm", "no_such_function", ""}) {
      void *copied_value = nullptr, *direct_value = nullptr;
      INFO(name);
      found += copied.has(name, &copied_value);
      CHECK(direct.has(name, &direct_value) == (copied_value != nullptr));
      CHECK(direct_value == copied_value);
    }
    CHECK(found >= 2);
    const char* const names[] = {"malloc", "__tls_get_addr", "no_such_function"};
    bool copied_imports[3] = {}, direct_imports[3] = {};
    REQUIRE(copied.symbols.read_imports(names, 3, copied_imports));
    REQUIRE(direct.symbols.read_imports(names, 3, direct_imports));
    CHECK(std::equal(copied_imports, copied_imports + 3, direct_imports));
  }
}

TEST_CASE("Objects without readable tables are refused") {
  sys::GuardedReader reader;
  intercept::Scratch scratch{};
  ExportedSymbols symbols(reader, scratch);
  link_map map{};
  CHECK_FALSE(symbols.open(map));
  map.l_ld = reinterpret_cast<ElfW(Dyn)*>(0x1000);
  CHECK_FALSE(symbols.open(map));
  const ElfW(Dyn) only_end{};
  map.l_ld = const_cast<ElfW(Dyn)*>(&only_end);
  CHECK_FALSE(symbols.open(map));
}
