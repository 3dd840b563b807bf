#include "preload/intercept/object_symbols.h"

#include <elf.h>
#include <link.h>

#include <initializer_list>

#include "preload/base/text.h"
#include "preload/intercept/elf_file.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::intercept {

namespace {

struct SymbolReader {
  ElfFile& file;
  std::uint64_t load_bias;
  ObjectSymbols& result;
  const ElfW(Phdr) * mapped_segment = nullptr;  ///< the segment for which is_mapped() was last true
};

/// The executable segment that contains these bytes; null: none does.
const ElfW(Phdr) * code_segment(const ElfFile& file, std::uint64_t address, std::uint64_t bytes) noexcept {
  for (unsigned i = 0; i < file.segment_count; ++i) {
    const ElfW(Phdr)& segment = file.segments[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz && segment.p_filesz - (address - segment.p_vaddr) >= bytes)
      return &segment;
  }
  return nullptr;
}

/// Whether the whole segment can be read at the address to which it would be loaded. The file may have been replaced
/// by one with longer segments.
bool is_mapped(SymbolReader& reader, const ElfW(Phdr) & segment) noexcept {
  if (reader.mapped_segment == &segment) return true;
  const std::uint64_t begin = reader.load_bias + segment.p_vaddr;
  sys::Mapping mapping;
  char no_path[1];
  if (!sys::find_mapping(begin, mapping, no_path, sizeof no_path) || !mapping.readable ||
      mapping.end - begin < segment.p_filesz)
    return false;
  reader.mapped_segment = &segment;
  return true;
}

/// Whether the function's first bytes in memory equal those in the file.
bool equals_memory(const SymbolReader& reader, const ElfW(Phdr) & segment, std::uint64_t value) noexcept {
  constexpr std::uint64_t kBytes = 16;
  unsigned char bytes[kBytes];
  const std::uint64_t left = segment.p_filesz - (value - segment.p_vaddr);
  const std::uint64_t count = left < kBytes ? left : kBytes;
  if (!read_at(reader.file.fd, bytes, count, segment.p_offset + (value - segment.p_vaddr))) return false;
  const auto* memory = reinterpret_cast<const unsigned char*>(reader.load_bias + value);
  for (std::uint64_t i = 0; i < count; ++i)
    if (memory[i] != bytes[i]) return false;
  return true;
}

void add(SymbolReader& reader, const ElfW(Sym) & symbol, const char* name,
         const AllocatorFunction& allocator) noexcept {
  ObjectSymbols& result = reader.result;
  const std::uint64_t address = reader.load_bias + symbol.st_value;
  for (std::size_t i = 0; i < result.count; ++i) {  // most functions are in both .symtab and .dynsym
    const AllocatorFunction& known = result.functions[i].allocator;
    if (result.functions[i].address == address && known.family == allocator.family &&
        known.signature == allocator.signature) {
      result.core |= allocator.family == Family::kPlain ? allocator.core : 0;
      return;
    }
  }
  if (result.count == kMaxFunctions) return;
  const ElfW(Phdr)* segment = code_segment(reader.file, symbol.st_value, 1);
  if (segment == nullptr || !is_mapped(reader, *segment) || !equals_memory(reader, *segment, symbol.st_value)) return;
  if (result.text.end == 0) {
    result.text.begin = reader.load_bias + segment->p_vaddr;
    result.text.end = result.text.begin + segment->p_filesz;
  }
  if (allocator.family == Family::kPlain) result.core |= allocator.core;
  FunctionSymbol& function = result.functions[result.count++];
  function.address = address;
  function.size = symbol.st_size;
  function.allocator = allocator;
  function.indirect = (symbol.st_info & 0xf) == STT_GNU_IFUNC;
  Text(function.name, sizeof function.name).add(name);
}

bool is_sanitizer_function(const char* name) noexcept {
  if (name[0] != '_' || name[1] != '_') return false;
  for (const char* init : {"__asan_init", "__tsan_init", "__msan_init", "__lsan_init"})
    if (text_equal(name, init)) return true;
  return false;
}

void read_table(SymbolReader& reader, const ElfW(Shdr) & table, const ElfW(Shdr) & strings) noexcept {
  if (table.sh_entsize != sizeof(ElfW(Sym)) || strings.sh_type != SHT_STRTAB || strings.sh_size == 0) return;
  const int fd = reader.file.fd;
  const Buffer symbols(table.sh_size);
  const Buffer names(strings.sh_size);
  if (!symbols || !names || !read_at(fd, symbols.data(), table.sh_size, table.sh_offset) ||
      !read_at(fd, names.data(), strings.sh_size, strings.sh_offset))
    return;
  names.data()[strings.sh_size - 1] = '\0';
  const auto* symbol = reinterpret_cast<const ElfW(Sym)*>(symbols.data());
  for (std::uint64_t left = table.sh_size / sizeof *symbol; left != 0; --left, ++symbol) {
    if (symbol->st_name >= strings.sh_size) continue;
    const char* name = names.data() + symbol->st_name;
    if (symbol->st_shndx == SHN_UNDEF) {
      if (text_equal(name, "dlopen")) reader.result.imports_dlopen = true;
      continue;
    }
    const unsigned type = symbol->st_info & 0xf;
    if (type != STT_FUNC && type != STT_GNU_IFUNC) continue;
    AllocatorFunction allocator;
    if (find_allocator_function(name, allocator)) add(reader, *symbol, name, allocator);
    else if (is_sanitizer_function(name)) reader.result.has_sanitizer = true;
  }
}

void read_image_range(SymbolReader& reader) noexcept {
  unwind::Span& image = reader.result.image;
  image.begin = UINT64_MAX;
  for (unsigned i = 0; i < reader.file.segment_count; ++i) {
    const ElfW(Phdr)& segment = reader.file.segments[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t begin = reader.load_bias + segment.p_vaddr;
    if (begin < image.begin) image.begin = begin;
    if (begin + segment.p_memsz > image.end) image.end = begin + segment.p_memsz;
  }
}

void read_tables(SymbolReader& reader) noexcept {
  const ElfW(Ehdr)& header = reader.file.header;
  if (header.e_shentsize != sizeof(ElfW(Shdr))) return;
  const Buffer memory(header.e_shnum * sizeof(ElfW(Shdr)));
  if (!memory || !read_at(reader.file.fd, memory.data(), header.e_shnum * sizeof(ElfW(Shdr)), header.e_shoff)) return;
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(memory.data());
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const ElfW(Shdr)& section = sections[i];
    if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) || section.sh_link >= header.e_shnum)
      continue;
    reader.result.has_symtab |= section.sh_type == SHT_SYMTAB;
    read_table(reader, section, sections[section.sh_link]);
  }
}

}  // namespace

bool read_object_symbols(const char* path, std::uint64_t load_bias, ObjectSymbols& result) noexcept {
  const Buffer memory(sizeof(ElfFile));
  if (!memory) return false;
  auto& file = *reinterpret_cast<ElfFile*>(memory.data());
  file.fd = sys::open(path, O_RDONLY | O_CLOEXEC);
  if (sys::failed(file.fd)) return false;
  const bool is_elf = read_headers(file);
  if (is_elf) {
    SymbolReader reader{file, load_bias, result};
    read_image_range(reader);
    read_tables(reader);
  }
  sys::close(file.fd);
  return is_elf;
}

}  // namespace heapprof::intercept
