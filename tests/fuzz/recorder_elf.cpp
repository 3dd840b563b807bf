// What the recorder reads of a loaded object: in the file, symbols; in memory, the headers that locate the unwind
// tables, and the code of functions that it would patch. Nothing is patched. The memory contains the bytes of the
// file, between pages that cannot be read.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "patch.h"
#include "preload/intercept/allocator_strings.h"
#include "preload/intercept/object_symbols.h"
#include "preload/intercept/patched_call.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/elf_object.h"
#include "tests/fuzz/input.h"

extern "C" {
extern const char heapprof_intercept_entry[1] = {};
extern const char heapprof_intercept_returned[1] = {};
}

namespace {

using namespace heapprof;

constexpr std::size_t kMaxObjectBytes = 16384;
constexpr std::size_t kReserved = std::size_t{1} << 30;

char* make_memory() {
  auto* const reserved = static_cast<char*>(::mmap(nullptr, 2 * kReserved + kMaxObjectBytes, PROT_NONE,
                                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (reserved == MAP_FAILED) std::abort();
  return reserved + kReserved;
}

#ifdef __x86_64__
constexpr std::size_t kAreaBytes = 32768;

/// Does what intercept::ObjectPatcher does, except for writing the patches.
void prepare_patches(const intercept::ObjectSymbols& symbols, char* area_begin) {
  static auto* const functions = new intercept::PatchedFunction[intercept::kMaxFunctions];
  static auto* const patches = new intercept::Patch[intercept::kMaxFunctions];
  static auto* const refused = new bool[intercept::kMaxFunctions];
  intercept::CodeArea area;
  area.begin = reinterpret_cast<std::uint8_t*>(area_begin);
  area.size = kAreaBytes;
  const unwind::Span& text = symbols.text;
  std::size_t prepared = 0;
  for (std::size_t i = 0; i < symbols.count; ++i) {
    const intercept::FunctionSymbol& function = symbols.functions[i];
    intercept::Patch& patch = patches[prepared];
    if (intercept::prepare_patch(area, text, function.address, function.size, &functions[prepared], patch) != nullptr)
      continue;
    const auto original =
        reinterpret_cast<std::uint64_t>(patch.original) - reinterpret_cast<std::uint64_t>(area.begin);
    if (patch.address < function.address || patch.length < sizeof patch.jump || patch.length > 19 ||
        patch.address + patch.length > text.end || original >= area.used || area.used > area.size)
      std::abort();
    refused[prepared++] = false;
  }
  intercept::find_branches_into(patches, prepared, symbols.text, symbols.image, refused);
}
#endif

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static char* const memory = make_memory();
  static fuzz::MemoryFile file;
  static auto& symbols = *new intercept::ObjectSymbols;
  static std::size_t mapped = 0;
  if (size == 0 || size > kMaxObjectBytes || !file.fill(data, size)) return 0;
  if (const std::size_t pages = (size + 4095) / 4096 * 4096; pages != mapped) {
    mapped = pages;
    if (::mprotect(memory, kMaxObjectBytes, PROT_NONE) != 0 ||
        ::mprotect(memory, mapped, PROT_READ | PROT_WRITE) != 0)
      std::abort();
  }
  std::memcpy(memory, data, size);
  std::memset(memory + size, 0, mapped - size);
  const auto begin = reinterpret_cast<std::uint64_t>(memory);

  symbols = {};
  const std::string path = file.path();
  static auto& scratch = *new intercept::Scratch{};
  sys::GuardedReader reader;
  link_map map{};
  map.l_addr = begin;
  map.l_ld = reinterpret_cast<ElfW(Dyn)*>(begin + 0x200);
  const intercept::WantedImports wanted{size % 2 == 0, size % 4 < 2};
  if (intercept::read_object_symbols(path.c_str(), map, reader, scratch, wanted, symbols))
    for (std::size_t i = 0; i < symbols.count; ++i) {
      const intercept::FunctionSymbol& function = symbols.functions[i];
      if (std::strlen(function.name) >= sizeof function.name) std::abort();
      if (function.address < begin || function.address >= begin + mapped) std::abort();
    }
  intercept::find_allocator_by_strings(path.c_str());
#ifdef __x86_64__
  static char* const area = memory - kReserved / 2;
  static const bool has_area = ::mprotect(area, kAreaBytes, PROT_READ | PROT_WRITE) == 0;
  if (!has_area) std::abort();
  prepare_patches(symbols, area);
#endif

  unwind::ObjectLocation location;
  location.map = {begin, begin + mapped};
  unwind::ElfObject object{};
  unwind::read_object(location, object);
  unwind::CfiEntry entry;
  for (const std::uint64_t pc : {begin + 0x280, begin + 0x300, begin + 0x380, begin + 0x1000, object.text.begin})
    unwind::find_cfi(object, pc, entry);
  return 0;
}
