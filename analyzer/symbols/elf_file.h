// Helpers to open and identify ELF files.
#pragma once

#include <gelf.h>
#include <libelf.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "analyzer/symbols/file_descriptor.h"

namespace heapprof::symbols {

struct ElfEnd {
  void operator()(Elf* elf) const { elf_end(elf); }
};
using ElfHandle = std::unique_ptr<Elf, ElfEnd>;

/// Opens a regular file for reading. Fails, with errno, for anything else, such as a pipe, which could block.
FileDescriptor open_regular_file(const std::string& path);

/// libelf's view of the file, which must stay open; null if libelf cannot read it.
ElfHandle open_elf(const FileDescriptor& file);

/// The build ID in hex; empty: the file has none.
std::string build_id_of(Elf* elf);

/// Reference to the supplementary file of dwz (.gnu_debugaltlink).
struct AltLink {
  std::string file_name;  ///< absolute, or relative to the referring file
  std::string build_id;   ///< hex
};
std::optional<AltLink> read_alt_link(Elf* elf);

/// CRC-32 of the whole file, as in .gnu_debuglink.
std::uint32_t crc32_of(const FileDescriptor& file);

/// Identity, size and modification time of a file, which change when it is replaced or written; empty: unknown.
std::string file_state(const FileDescriptor& file);

/// The bytes from the lowest to the highest address of all PT_LOAD segments; 0: there are none.
std::uint64_t mapped_bytes_of(Elf* elf);

/// Calls visit(section, header, name) for each section until it returns true.
template <typename Visit>
void for_each_section(Elf* elf, Visit&& visit) {
  std::size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name != nullptr && visit(section, header, std::string_view(name))) return;
  }
}

/// Calls visit(header) for each PT_LOAD segment.
template <typename Visit>
void for_each_load_segment(Elf* elf, Visit&& visit) {
  std::size_t segments = 0;
  if (elf_getphdrnum(elf, &segments) != 0) return;
  for (std::size_t i = 0; i < segments; ++i) {
    GElf_Phdr segment;
    if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) return;
    if (segment.p_type == PT_LOAD) visit(segment);
  }
}

}  // namespace heapprof::symbols
