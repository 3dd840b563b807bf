// Frees of code objects: when it is proven that an interpreter calls the hook of free, and which frees change a
// version. The interpreter's functions are the instructions that compilers make of them.
#include "preload/python/freed_code.h"

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "preload/recorder/process/fast_path_mode.h"
#include "preload/unwind/stack_bounds.h"

namespace {
void free_hook(void*) noexcept {}
}  // namespace
extern "C" {
extern void (*const heapprof_free_hook_address)(void*) noexcept;
void (*const heapprof_free_hook_address)(void*) noexcept = free_hook;
}

using namespace heapprof;
using namespace heapprof::python;

namespace {

using Bytes = std::vector<unsigned char>;

/// A module: its code, from kCode on, and its data, which have the allocator of objects.
class Module {
 public:
  static constexpr std::size_t kBytes = 1u << 16;
  static constexpr std::uint64_t kObjectFree = 0x100, kUnusual = 0x200, kRawFree = 0x300, kStub = 0x400;
  static constexpr std::uint64_t kContext = 0x1000, kFree = kContext + 32, kFreePlace = 0x2000;

  Module() {
    void* const mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    begin = reinterpret_cast<std::uint64_t>(mapped);
    unwind::start_probing();
    pages.begin_event();
  }
  ~Module() { munmap(reinterpret_cast<void*>(begin), kBytes); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Writes instructions from `at` on. Each one that ends with the distance to another place has this place.
  struct Instruction {
    Bytes bytes;
    std::uint64_t place = 0;
  };
  void code(std::uint64_t at, std::initializer_list<Instruction> instructions) {
    for (const Instruction& each : instructions) {
      std::memcpy(reinterpret_cast<void*>(begin + at), each.bytes.data(), each.bytes.size());
      at += each.bytes.size();
      if (each.place == 0) continue;
      const auto distance = static_cast<std::int32_t>(each.place - at - 4);
      std::memcpy(reinterpret_cast<void*>(begin + at), &distance, sizeof distance);
      at += 4;
    }
  }
  void set(std::uint64_t at, std::uint64_t value) { *reinterpret_cast<std::uint64_t*>(begin + at) = value; }

  void plain_object_free() {
    code(kObjectFree, {{{0x48, 0x89, 0xfe}}, {{0x48, 0x8b, 0x3d}, kContext}, {{0xff, 0x25}, kFree}});
  }
  void raw_free() {
    code(kRawFree, {{{0x48, 0x89, 0xf7}}, {{0xe9}, kStub}});
    code(kStub, {{{0xff, 0x25}, kFreePlace}});
    set(kFreePlace, reinterpret_cast<std::uint64_t>(free_hook));
    set(kFree, begin + kRawFree);
  }
  bool is_noticed() { return release.is_noticed(pages); }
  bool found_and_noticed() {
    release = {};
    release.find(begin + kObjectFree);
    return is_noticed();
  }

  std::uint64_t begin;
  ReadablePages pages{};
  CodeRelease release{};
};

}  // namespace

TEST_CASE("An interpreter that frees objects by free is recognized") {
  Module module;
  module.raw_free();
  SECTION("plain") { module.plain_object_free(); }
  SECTION("with endbr64") {
    module.code(Module::kObjectFree, {{{0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xfe}},
                                      {{0x48, 0x8b, 0x3d}, Module::kContext},
                                      {{0xff, 0x25}, Module::kFree}});
    module.code(Module::kRawFree, {{{0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf7}}, {{0xe9}, Module::kStub}});
    module.code(Module::kStub, {{{0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25}, Module::kFreePlace}});
  }
  SECTION("with the usual function inline") {
    module.code(Module::kObjectFree, {{{0x48, 0x8b, 0x05}, Module::kFree},
                                      {{0x48, 0x8b, 0x15}, Module::kContext},
                                      {{0x48, 0x3d, 1, 2, 3, 4}},
                                      {{0x0f, 0x85}, Module::kUnusual}});
    module.code(Module::kUnusual, {{{0x48, 0x89, 0xfe, 0x48, 0x89, 0xd7, 0xff, 0xe0}}});
  }
  SECTION("with the usual function inline, in a shared library") {
    module.code(Module::kObjectFree, {{{0x48, 0x8b, 0x05}, Module::kFree},
                                      {{0x48, 0x8d, 0x0d}, Module::kStub},
                                      {{0x48, 0x8b, 0x15}, Module::kContext},
                                      {{0x48, 0x39, 0xc8, 0x75, 0x10}}});
    const std::uint64_t target = Module::kObjectFree + 7 + 7 + 7 + 5 + 0x10;
    module.code(target, {{{0x48, 0x89, 0xfe, 0x48, 0x89, 0xd7, 0xff, 0xe0}}});
  }
  SECTION("without a procedure linkage table") {
    module.plain_object_free();
    module.code(Module::kRawFree, {{{0x48, 0x89, 0xf7, 0xff, 0x25}, Module::kFreePlace}});
  }
  CHECK(module.found_and_noticed());
  CHECK(module.is_noticed());
}

TEST_CASE("An interpreter that may free objects otherwise is not recognized") {
  Module module;
  module.raw_free();
  module.plain_object_free();
  REQUIRE(module.found_and_noticed());
  SECTION("no code") { module.code(Module::kObjectFree, {{Bytes(32, 0)}}); }
  SECTION("another context") {
    module.code(Module::kObjectFree,
                {{{0x48, 0x89, 0xfe}}, {{0x48, 0x8b, 0x3d}, Module::kContext + 8}, {{0xff, 0x25}, Module::kFree}});
  }
  SECTION("another block") {
    module.code(Module::kObjectFree,
                {{{0x48, 0x8b, 0x3d}, Module::kContext}, {{0x48, 0x89, 0xfe}}, {{0xff, 0x25}, Module::kFree}});
  }
  SECTION("an endless loop") { module.code(Module::kObjectFree, {{{0x75, 0xfe}}}); }
  SECTION("another function") { module.set(Module::kFree, module.begin + Module::kUnusual); }
  SECTION("a function that cannot be read") { module.set(Module::kFree, 0x10); }
  SECTION("another argument") { module.code(Module::kRawFree, {{{0x48, 0x89, 0xfe}}}); }
  SECTION("a call of another function") { module.set(Module::kFreePlace, module.begin + Module::kStub); }
  CHECK_FALSE(module.found_and_noticed());
  CHECK_FALSE(module.is_noticed());
}

TEST_CASE("Frees count as noticed once free is bound, and never again after another function was used") {
  Module module;
  module.raw_free();
  module.plain_object_free();
  const std::uint64_t raw_free = module.begin + Module::kRawFree;
  module.set(Module::kFreePlace, module.begin + Module::kStub + 6);
  CHECK_FALSE(module.found_and_noticed());
  module.set(Module::kFreePlace, reinterpret_cast<std::uint64_t>(free_hook));
  CHECK(module.is_noticed());
  module.set(Module::kFree, module.begin + Module::kUnusual);
  CHECK_FALSE(module.is_noticed());
  module.set(Module::kFree, raw_free);
  CHECK_FALSE(module.is_noticed());
}

TEST_CASE("The free of a code object changes its version, and that of no other one") {
  const std::vector<std::uint64_t> codes{0x7f0000001010, 0x7f0000001020, 0x7f0000201010, 0x55aa00001010};
  std::vector<std::uint32_t> versions;
  for (const std::uint64_t code : codes) {
    REQUIRE(version_of_code(code) != nullptr);
    versions.push_back(*version_of_code(code));
    CHECK(versions.back() != 0);
  }
  CHECK(python::detail::code_is_watched);
  CHECK(recorder::g_free_mode == &recorder::kPythonFrames);
  const std::uint64_t freed = freed_code_objects();
  for (std::uint64_t block = 0x7f0000002000; block != 0x7f0000202000; block += 16)
    if (block != codes[2]) block_freed(reinterpret_cast<const void*>(block));
  CHECK(freed_code_objects() == freed);
  block_freed(reinterpret_cast<const void*>(codes[1]));
  CHECK(freed_code_objects() == freed + 1);
  for (std::size_t i = 0; i != codes.size(); ++i) {
    CAPTURE(i);
    CHECK((*version_of_code(codes[i]) != versions[i]) == (i == 1));
  }
}

// Last: afterwards the table is full for good.
TEST_CASE("A full table ends the use of versions") {
  Module module;
  module.raw_free();
  module.plain_object_free();
  REQUIRE(module.found_and_noticed());
  std::uint64_t code = 0x600000000000;
  unsigned count = 0;
  for (; version_of_code(code) != nullptr; code += 208) REQUIRE(++count < 1u << 15);
  CHECK(count > 20'000);
  CHECK_FALSE(module.is_noticed());
  CHECK(version_of_code(0x600000000000) != nullptr);
}
