// What the recorder reads of objects that the profiled program has loaded: names of functions in the file, and in
// memory the headers that lead to the unwind information. The memory is the file's bytes, and nothing can be read
// around it.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "preload/intercept/symbols.h"
#include "preload/unwind/cfi.h"
#include "preload/unwind/modules.cpp"  // describe() is nobody else's affair
#include "tests/fuzz/input.h"

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

  unwind::Object object;
  object.map = {begin, begin + mapped};
  unwind::Module module{};
  unwind::describe(object, module);
  unwind::CfiEntry entry;
  for (const std::uint64_t pc : {begin + 0x280, begin + 0x300, begin + 0x380, begin + 0x1000, module.text.begin})
    unwind::find_cfi(module, pc, entry);
  return 0;
}
