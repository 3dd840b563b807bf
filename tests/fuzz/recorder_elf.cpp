// What the recorder reads of objects that the profiled program has loaded: names of functions in the file, and in
// memory the headers that lead to the unwind information, and the code of the functions to be diverted, which are not
// written to. The memory is the file's bytes, and nothing can be read around it.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "patch.h"
#include "preload/intercept/object_symbols.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/modules.cpp"  // describe() is nobody else's affair
#include "tests/fuzz/input.h"

extern "C" {
extern const char heapprof_intercept_entry[1] = {};
extern const char heapprof_intercept_returned[1] = {};
}

namespace {

using namespace heapprof;

constexpr std::size_t kMost = 16384;  // bytes of an object
constexpr std::size_t kAround = std::size_t{1} << 30;

char* make_memory() {
  auto* const around = static_cast<char*>(
      ::mmap(nullptr, 2 * kAround + kMost, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (around == MAP_FAILED) std::abort();
  return around + kAround;
}

#ifdef __x86_64__
constexpr std::size_t kRoom = 32768;

/// As preload/intercept/intercept.cpp does, but for the last step.
void divert(const intercept::Symbols& symbols, char* room_begin) {
  static auto* const targets = new intercept::Target[intercept::kMaxFunctions];
  static auto* const patches = new arch::Patch[intercept::kMaxFunctions];
  static auto* const refused = new bool[intercept::kMaxFunctions];
  arch::Room room;
  room.begin = reinterpret_cast<std::uint8_t*>(room_begin);
  room.size = kRoom;
  const unwind::Span text{symbols.text_begin, symbols.text_end};
  std::size_t prepared = 0;
  for (std::size_t i = 0; i < symbols.count; ++i) {
    const intercept::Function& function = symbols.functions[i];
    intercept::Target& target = targets[prepared];
    const arch::Patch& patch = patches[prepared];
    if (arch::prepare(room, text, function.address, function.size, target, patches[prepared]) != nullptr) continue;
    const auto original = reinterpret_cast<std::uint64_t>(target.original) - reinterpret_cast<std::uint64_t>(room.begin);
    if (patch.address < function.address || patch.length < sizeof patch.jump || patch.length > 19 ||
        patch.address + patch.length > text.end || original >= room.used || room.used > room.size)
      std::abort();
    refused[prepared++] = false;
  }
  arch::find_branches(symbols, patches, prepared, refused);
}
#endif

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static char* const memory = make_memory();
  static fuzz::MemoryFile file;
  static auto& symbols = *new intercept::Symbols;
  static std::size_t mapped = 0;
  if (size == 0 || size > kMost || !file.fill(data, size)) return 0;
  if (const std::size_t pages = (size + 4095) / 4096 * 4096; pages != mapped) {
    mapped = pages;
    if (::mprotect(memory, kMost, PROT_NONE) != 0 || ::mprotect(memory, mapped, PROT_READ | PROT_WRITE) != 0)
      std::abort();
  }
  std::memcpy(memory, data, size);
  std::memset(memory + size, 0, mapped - size);
  const auto begin = reinterpret_cast<std::uint64_t>(memory);

  std::memset(&symbols, 0, sizeof symbols);
  const std::string path = file.path();
  if (intercept::read_symbols(path.c_str(), begin, symbols))
    for (std::size_t i = 0; i < symbols.count; ++i) {
      const intercept::Function& function = symbols.functions[i];
      if (std::strlen(function.symbol) >= sizeof function.symbol) std::abort();
      if (function.address < begin || function.address >= begin + mapped) std::abort();
    }
  intercept::recognise(path.c_str());
#ifdef __x86_64__
  static char* const room = memory - kAround / 2;
  static const bool has_room = ::mprotect(room, kRoom, PROT_READ | PROT_WRITE) == 0;
  if (!has_room) std::abort();
  divert(symbols, room);
#endif

  unwind::Object object;
  object.map = {begin, begin + mapped};
  unwind::Module module{};
  unwind::describe(object, module);
  unwind::CfiEntry entry;
  for (const std::uint64_t pc : {begin + 0x280, begin + 0x300, begin + 0x380, begin + 0x1000, module.text.begin})
    unwind::find_cfi(module, pc, entry);
  return 0;
}
