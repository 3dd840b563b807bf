#include <catch2/catch.hpp>

#include "analyzer/allocators/process_allocators.h"

using namespace heapprof;
using allocators::Allocator;
using allocators::ProcessAllocators;

namespace {

model::Module module_at(const std::string& path, std::uint64_t address = 0, bool is_main = false) {
  model::Module module;
  module.path = path;
  module.first_address = address;
  module.map_bytes = 0x10000;
  module.is_main = is_main;
  return module;
}

model::Profile profile_of(const std::vector<model::Module>& modules, const std::string& note = {}) {
  model::Profile profile;
  profile.modules = modules;
  if (!note.empty()) profile.integrity.notes = {note};
  return profile;
}

}  // namespace

TEST_CASE("an allocator's library names it; without one it is libc's") {
  const auto of = [](const std::string& path) { return ProcessAllocators(profile_of({module_at(path)})).main(); };
  CHECK(of("/lib/x86_64-linux-gnu/libc.so.6") == Allocator::kGlibc);
  CHECK(of("/lib/x86_64-linux-gnu/libjemalloc.so.2") == Allocator::kJemalloc);
  CHECK(of("/usr/lib/libtcmalloc_minimal.so.4") == Allocator::kTcmalloc);
  CHECK(of("/usr/lib/libtcmalloc_minimal_debug.so.4") == Allocator::kUnknown);
  CHECK(of("/usr/lib/libmimalloc.so.2.0") == Allocator::kMimalloc);
  CHECK(of("/lib/ld-musl-x86_64.so.1") == Allocator::kUnknown);
}

TEST_CASE("notes of the recorder name embedded allocators") {
  const auto of = [](const std::string& note) {
    return ProcessAllocators(profile_of({module_at("/opt/server")}, "embedded allocator: " + note)).main();
  };
  CHECK(of("jemalloc in /opt/server, 6 functions patched (_rjem_malloc)") == Allocator::kJemalloc);
  CHECK(of("tcmalloc in /opt/server, 18 functions patched (tc_malloc)") == Allocator::kTcmalloc);
  CHECK(of("tcmalloc in /opt/server, 18 functions patched (TCMallocInternalMalloc)") == Allocator::kUnknown);
  CHECK(of("mimalloc in /opt/server, 85 functions patched (mi_malloc)") == Allocator::kMimalloc);
  CHECK(of("snmalloc in /opt/server, 4 functions patched (sn_rust_alloc)") == Allocator::kUnknown);
  // libc's own functions are patched for libraries that bypass the hooks.
  CHECK(of("malloc in /lib/x86_64-linux-gnu/libc.so.6, 9 functions patched (malloc)") == Allocator::kGlibc);
}

TEST_CASE("blocks in the brk heap are libc's, beside jemalloc and mimalloc") {
  const std::vector<model::Module> modules = {module_at("/opt/server", 0x555500000000, true)};
  const ProcessAllocators mixed(profile_of(modules, "embedded allocator: jemalloc in /opt/server, 6 functions"));
  CHECK(mixed.main() == Allocator::kJemalloc);
  CHECK(mixed.of(0x555500020000).allocator() == Allocator::kGlibc);
  CHECK(mixed.of(0x7f0000020000).allocator() == Allocator::kJemalloc);
  CHECK(mixed.of(0x555500000000).allocator() == Allocator::kJemalloc);  // within the program: not behind it
  // tcmalloc itself takes memory from brk.
  const ProcessAllocators tcmalloc(profile_of(modules, "embedded allocator: tcmalloc in /opt/server, 18 functions"));
  CHECK(tcmalloc.of(0x555500020000).allocator() == Allocator::kTcmalloc);
}

TEST_CASE("what is unknown is noted") {
  CHECK(ProcessAllocators(profile_of({module_at("/lib/libc.so.6")})).note().empty());
  CHECK(ProcessAllocators(profile_of({module_at("/lib/libscudo.so")})).note() ==
        "the size classes of libscudo.so are unknown: a block is taken to keep the pages of its bytes");
  CHECK(ProcessAllocators(profile_of({module_at("/lib/libjemalloc.so.2"), module_at("/lib/libmimalloc.so.2")}))
            .note()
            .starts_with("the process has several allocators"));
}

TEST_CASE("jemalloc's quantum is 8 if blocks have addresses that are no multiples of 16") {
  const auto usable_with = [](std::uint64_t odd, std::uint64_t size) {
    ProcessAllocators process(profile_of({module_at("/usr/lib/libjemalloc.so.2")}));
    for (std::uint64_t i = 0; i < 1000; ++i) process.see_block(0x7f0000000000 + i * 64 + (i < odd ? 8 : 0), size);
    process.finish_blocks();
    return process.of(0x7f0000000000).usable_bytes(0x7f0000000000, 33);
  };
  CHECK(usable_with(0, 40) == 48);
  CHECK(usable_with(500, 40) == 40);
  // Those of a pool within larger blocks, and the smallest class of any jemalloc.
  CHECK(usable_with(9, 40) == 48);
  CHECK(usable_with(500, 8) == 48);
}
