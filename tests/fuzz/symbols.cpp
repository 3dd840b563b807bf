// An arbitrary file as a module of the recorded program: ELF, symbol tables, DWARF, read by elfutils. The addresses
// are those of the first segments, and others from the last bytes of the input.
#include "analyzer/symbols/symbolizer.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace heapprof;
  static fuzz::MemoryFile memory;
  if (!memory.fill(data, size)) return 0;
  std::vector<symbols::CodeAddress> addresses;
  for (std::uint64_t address = 0x1000; address < 0x1400; address += 4) addresses.push_back({0, address});
  for (std::size_t at = size > 64 ? size - 64 : 0; at + 8 <= size; at += 8) {
    std::uint64_t address;
    std::memcpy(&address, data + at, sizeof address);
    addresses.push_back({0, address});
  }
  symbols::Options options;
  symbols::Symbolizer symbolizer({{memory.path(), ""}}, options);
  std::size_t names = 0;
  for (const auto& frames : symbolizer.resolve(addresses))
    for (const auto& frame : frames) names += frame.function.size();
  return names == static_cast<std::size_t>(-1);
}
