#include "analyzer/launch/sanitizer.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

namespace heapprof::launch {

namespace {

constexpr std::uint64_t kMaxNames = 256u << 20;
constexpr std::uint64_t kMaxTable = 1u << 20;

/// `size` bytes at `offset`; fewer where the file ends.
std::string read_at(std::ifstream& file, std::uint64_t offset, std::uint64_t size) {
  std::string bytes(size, '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

template <typename Record>
std::vector<Record> records(const std::string& bytes) {
  std::vector<Record> result(bytes.size() / sizeof(Record));
  if (!result.empty()) std::memcpy(result.data(), bytes.data(), result.size() * sizeof(Record));
  return result;
}

/// The names of the file's dynamic symbols, each ended by NUL; empty if there are none or they cannot be read.
std::string dynamic_names(std::ifstream& file) {
  const auto header = records<Elf64_Ehdr>(read_at(file, 0, sizeof(Elf64_Ehdr)));
  if (header.empty() || header[0].e_phentsize != sizeof(Elf64_Phdr)) return {};
  const auto segments =
      records<Elf64_Phdr>(read_at(file, header[0].e_phoff, std::uint64_t{header[0].e_phnum} * sizeof(Elf64_Phdr)));
  std::uint64_t address = 0, size = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_DYNAMIC || segment.p_filesz > kMaxTable) continue;
    for (const Elf64_Dyn& entry : records<Elf64_Dyn>(read_at(file, segment.p_offset, segment.p_filesz))) {
      if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) size = entry.d_un.d_val;
    }
  }
  if (size > kMaxNames) return {};
  for (const Elf64_Phdr& segment : segments)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
      return read_at(file, segment.p_offset + (address - segment.p_vaddr), size);
  return {};
}

}  // namespace

std::string sanitizer_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string names = dynamic_names(file);
  using namespace std::string_view_literals;
  for (const auto& [symbol, name] :
       {std::pair{"\0__asan_init\0"sv, "AddressSanitizer"}, std::pair{"\0__hwasan_init\0"sv, "HWAddressSanitizer"},
        std::pair{"\0__tsan_init\0"sv, "ThreadSanitizer"}, std::pair{"\0__msan_init\0"sv, "MemorySanitizer"},
        // The only symbol of AddressSanitizer in a program linked by GCC's
        // -static-libasan.
        std::pair{"\0__sanitizer_malloc_hook\0"sv, "AddressSanitizer or similar"}})
    if (names.find(symbol) != std::string::npos) return name;
  return {};
}

}  // namespace heapprof::launch
