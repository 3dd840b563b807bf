#include "preload/intercept/object_symbols.h"

#include <elf.h>
#include <link.h>

#include <iterator>

#include "preload/base/text.h"
#include "preload/intercept/exported_symbols.h"
#include "preload/intercept/name_search.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::intercept {

namespace {

struct SymbolReader {
  ElfFile& file;
  std::uint64_t load_bias;
  sys::GuardedReader& memory;
  ObjectSymbols& result;
  const ElfW(Phdr) * mapped_segment = nullptr;  ///< the segment for which is_mapped() was last true
  sys::FileIdentity mapped_file{};              ///< the file that is mapped there
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
  if (!reader.memory.find_mapping(begin, mapping, no_path, sizeof no_path) || !mapping.readable ||
      mapping.end - begin < segment.p_filesz)
    return false;
  reader.mapped_segment = &segment;
  reader.mapped_file = {mapping.device, mapping.inode};
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

/// Adds a function that is not known by another name, or by the other table.
void add(SymbolReader& reader, const ElfW(Sym) & symbol, const char* name,
         const AllocatorFunction& allocator) noexcept {
  ObjectSymbols& result = reader.result;
  const std::uint64_t address = reader.load_bias + symbol.st_value;
  for (std::size_t i = 0; i < result.count; ++i) {
    AllocatorFunction& known = result.functions[i].allocator;
    if (result.functions[i].address == address && known.family == allocator.family &&
        known.signature == allocator.signature) {
      known.core |= allocator.core;
      known.is_memalign |= allocator.is_memalign;
      return;
    }
  }
  if (result.count == kMaxFunctions) return;
  FunctionSymbol& function = result.functions[result.count++];
  function = {};
  function.address = address;
  function.size = symbol.st_size;
  function.allocator = allocator;
  function.indirect = (symbol.st_info & 0xf) == STT_GNU_IFUNC;
  Text(function.name, sizeof function.name).add(name);
}

/// Keeps the functions whose code in memory is that of the file.
void keep_mapped(SymbolReader& reader) noexcept {
  ObjectSymbols& result = reader.result;
  bool only_operators = true;
  for (std::size_t i = 0; i < result.count; ++i)
    only_operators &= result.functions[i].allocator.family == Family::kOperator;
  const std::size_t count = only_operators ? 0 : result.count;
  result.count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const FunctionSymbol function = result.functions[i];
    const std::uint64_t value = function.address - reader.load_bias;
    const ElfW(Phdr)* segment = code_segment(reader.file, value, 1);
    if (segment == nullptr || !is_mapped(reader, *segment) || !equals_memory(reader, *segment, value)) continue;
    if (result.text.end == 0) {
      result.text.begin = reader.load_bias + segment->p_vaddr;
      result.text.end = result.text.begin + segment->p_filesz;
      result.mapped_file = reader.mapped_file;
    }
    if (function.allocator.family == Family::kPlain) result.core |= function.allocator.core;
    result.functions[result.count++] = function;
  }
}

constexpr const char* kSanitizerFunctions[] = {"__asan_init", "__tsan_init", "__msan_init", "__lsan_init"};
constexpr std::uint32_t kSanitizerHashes[] = {
    real::gnu_hash(kSanitizerFunctions[0]), real::gnu_hash(kSanitizerFunctions[1]),
    real::gnu_hash(kSanitizerFunctions[2]), real::gnu_hash(kSanitizerFunctions[3])};
constexpr const char* kLoadingFunction = "dlopen";
constexpr const char* kPurgingFunction = "madvise";
constexpr std::uint32_t kImportHashes[] = {real::gnu_hash(kLoadingFunction), real::gnu_hash(kPurgingFunction)};

/// Whether one of the names above can end with these four bytes.
constexpr bool may_end_other_name(std::uint32_t last) noexcept {
  static_assert(last_word_of(kSanitizerFunctions[0]) == last_word_of("init") &&
                last_word_of(kSanitizerFunctions[1]) == last_word_of("init") &&
                last_word_of(kSanitizerFunctions[2]) == last_word_of("init") &&
                last_word_of(kSanitizerFunctions[3]) == last_word_of("init"));
  return last == last_word_of("init") || last == last_word_of(kLoadingFunction) ||
         last == last_word_of(kPurgingFunction);
}

/// The lengths of the names above that end with these four bytes.
constexpr std::uint64_t other_name_lengths(std::uint32_t last) noexcept {
  static_assert(length_bit(kSanitizerFunctions[0]) == length_bit(kSanitizerFunctions[1]) &&
                length_bit(kSanitizerFunctions[0]) == length_bit(kSanitizerFunctions[2]) &&
                length_bit(kSanitizerFunctions[0]) == length_bit(kSanitizerFunctions[3]));
  return last == last_word_of("init")             ? length_bit(kSanitizerFunctions[0])
         : last == last_word_of(kLoadingFunction) ? length_bit(kLoadingFunction)
         : last == last_word_of(kPurgingFunction) ? length_bit(kPurgingFunction)
                                                  : 0;
}

bool is_import_that_matters(const char* name) noexcept {
  return text_equal(name, kLoadingFunction) || text_equal(name, kPurgingFunction);
}

/// `name`: of a function that the object refers to and does not define.
void add_import(ObjectSymbols& result, const char* name) noexcept {
  if (text_equal(name, kLoadingFunction)) result.imports_dlopen = true;
  else if (text_equal(name, kPurgingFunction)) result.imports_madvise = true;
}

bool is_sanitizer_function(const char* name) noexcept {
  if (name[0] != '_' || name[1] != '_') return false;
  for (const char* init : kSanitizerFunctions)
    if (text_equal(name, init)) return true;
  return false;
}

void visit_symbol(SymbolReader& reader, const ElfW(Sym) & symbol, const char* name) noexcept {
  if (symbol.st_shndx == SHN_UNDEF) return add_import(reader.result, name);
  const unsigned type = symbol.st_info & 0xf;
  if (type != STT_FUNC && type != STT_GNU_IFUNC) return;
  AllocatorFunction allocator;
  if (find_allocator_function(name, allocator)) add(reader, symbol, name, allocator);
  else if (is_sanitizer_function(name)) reader.result.has_sanitizer = true;
}

/// Returns whether the whole table was read.
bool read_table(SymbolReader& reader, const ElfW(Shdr) & table, const ElfW(Shdr) & strings) noexcept {
  if (table.sh_entsize != sizeof(ElfW(Sym)) || strings.sh_type != SHT_STRTAB || strings.sh_size == 0) return false;
  if (table.sh_size > kMaxTableBytes || strings.sh_size > kMaxTableBytes) return false;
  const int fd = reader.file.fd;
  const Buffer piece(kNamePieceBytes);
  // A bit for each offset at which a name begins that matters. In a large table several offsets share a bit, so that
  // the bits stay in the processor's cache and few of their pages are touched; visit_symbol() compares the names.
  constexpr std::uint64_t kMaxWantedBytes = 64u << 10;
  const std::uint64_t offset_bytes = strings.sh_size / 8 + 1;
  const Buffer wanted(offset_bytes < kMaxWantedBytes ? offset_bytes : kMaxWantedBytes);
  if (!piece || !wanted) return false;
  const auto bits = [&](std::uint64_t offset) noexcept -> char& {
    return wanted.data()[offset / 8 % kMaxWantedBytes];
  };
  bool any = false;
  const bool searched = find_names(
      strings.sh_size, piece.data(),
      [&](char* to, std::size_t bytes, std::uint64_t offset) noexcept {
        return read_at(fd, to, bytes, strings.sh_offset + offset);
      },
      [](std::uint32_t last) noexcept { return may_end_allocator_name(last) || may_end_other_name(last); },
      [&](const char* name, std::uint64_t offset) noexcept {
        AllocatorFunction allocator;
        if (!find_allocator_function(name, allocator) && !is_sanitizer_function(name) &&
            !is_import_that_matters(name))
          return;
        bits(offset) = static_cast<char>(bits(offset) | 1 << offset % 8);
        any = true;
      },
      [](std::uint32_t last) noexcept { return allocator_name_lengths(last) | other_name_lengths(last); });
  if (!searched) return false;
  if (!any) return true;
  const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(piece.data());
  constexpr std::uint64_t kPieceSymbols = kNamePieceBytes / sizeof *symbols;
  const std::uint64_t count = table.sh_size / sizeof *symbols;
  for (std::uint64_t first = 0; first < count; first += kPieceSymbols) {
    const std::uint64_t in_piece = count - first < kPieceSymbols ? count - first : kPieceSymbols;
    if (!read_at(fd, piece.data(), in_piece * sizeof *symbols, table.sh_offset + first * sizeof *symbols))
      return false;
    for (std::uint64_t i = 0; i < in_piece; ++i) {
      const std::uint64_t offset = symbols[i].st_name;
      if (offset >= strings.sh_size || (bits(offset) >> offset % 8 & 1) == 0) continue;
      char name[kLongestName + 1] = {};
      const std::uint64_t left = strings.sh_size - offset;
      if (!read_at(fd, name, left < kLongestName ? left : kLongestName, strings.sh_offset + offset)) return false;
      visit_symbol(reader, symbols[i], name);
    }
  }
  return true;
}

/// Reads the exported functions, except operators new and delete, and the imports that matter, from the object's
/// memory. Returns false when that is not possible.
bool read_exported(SymbolReader& reader, const link_map& map, sys::GuardedReader& memory, Scratch& scratch,
                   const WantedImports& wanted) noexcept {
  ExportedSymbols exported(memory, scratch);
  const auto visit = [&](const ElfW(Sym) & symbol, const char* name) noexcept { visit_symbol(reader, symbol, name); };
  const NameHashes names = allocator_name_hashes();
  if (!exported.open(map) || !exported.find(names.values, names.count, visit) ||
      !exported.find(kSanitizerHashes, std::size(kSanitizerHashes), visit))
    return false;
  const char* imports[2] = {};
  std::size_t count = 0;
  if (wanted.dlopen) imports[count++] = kLoadingFunction;
  if (wanted.madvise) imports[count++] = kPurgingFunction;
  if (count == 0) return true;
  // If a program that is not position-independent takes the address of an imported function, this is the address of
  // its PLT entry, which the loader has to find. So the import is among the symbols in the hash table.
  if (!exported.find(kImportHashes, std::size(kImportHashes), visit)) return false;
  bool imported[2] = {};
  if (!exported.read_imports(imports, count, imported)) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (imported[i]) add_import(reader.result, imports[i]);
  reader.result.imports_known = true;
  return true;
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

/// Reads the exported operators new and delete. They matter only in an object that has other allocator functions;
/// libstdc++, for example, has none. Returns false when they cannot be read.
bool read_exported_operators(SymbolReader& reader, const link_map& map, sys::GuardedReader& memory,
                             Scratch& scratch) noexcept {
  ExportedSymbols exported(memory, scratch);
  const auto visit = [&](const ElfW(Sym) & symbol, const char* name) noexcept { visit_symbol(reader, symbol, name); };
  const NameHashes names = operator_name_hashes();
  return exported.open(map) && exported.find(names.values, names.count, visit);
}

/// Whether the table is that of a program whose symbols are not stripped. Some programs keep a few symbols (Bun: a
/// thousand, for 80 MB of code).
bool has_most_functions(const ElfFile& file, const ElfW(Shdr) & table) noexcept {
  constexpr std::uint64_t kMaxCodePerSymbol = 16u << 10;  // bytes; others have some hundred
  std::uint64_t code = 0;
  for (unsigned i = 0; i < file.segment_count; ++i)
    if (file.segments[i].p_type == PT_LOAD && (file.segments[i].p_flags & PF_X) != 0)
      code += file.segments[i].p_filesz;
  return code / kMaxCodePerSymbol <= table.sh_size / sizeof(ElfW(Sym));
}

/// Reads the tables of the file: .symtab, and .dynsym unless the exported functions are known.
void read_tables(SymbolReader& reader, Scratch& scratch, bool exported_known) noexcept {
  const ElfW(Ehdr)& header = reader.file.header;
  if (header.e_shentsize != sizeof(ElfW(Shdr))) return;
  const std::uint64_t bytes = header.e_shnum * sizeof(ElfW(Shdr));
  char* const memory = scratch.reserve(bytes);
  if (memory == nullptr || !read_at(reader.file.fd, memory, bytes, header.e_shoff)) return;
  const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(memory);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const ElfW(Shdr)& section = sections[i];
    if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) || section.sh_link >= header.e_shnum)
      continue;
    if (section.sh_type == SHT_DYNSYM && exported_known) continue;
    reader.result.names_functions |= section.sh_type == SHT_SYMTAB && has_most_functions(reader.file, section);
    if (read_table(reader, section, sections[section.sh_link]) && section.sh_type == SHT_DYNSYM)
      reader.result.imports_known = true;
  }
}

}  // namespace

bool read_object_symbols(const char* path, const link_map& map, sys::GuardedReader& memory, Scratch& scratch,
                         const WantedImports& wanted, ObjectSymbols& result) noexcept {
  ElfFile& file = result.headers;
  file.fd = sys::open(path, O_RDONLY | O_CLOEXEC);
  if (sys::failed(file.fd)) return false;
  const bool is_elf = read_headers(file);
  if (is_elf) {
    SymbolReader reader{file, map.l_addr, memory, result};
    read_image_range(reader);
    const bool exported_known = read_exported(reader, map, memory, scratch, wanted);
    read_tables(reader, scratch, exported_known);
    if (exported_known && result.count != 0 && !read_exported_operators(reader, map, memory, scratch))
      read_tables(reader, scratch, false);
    keep_mapped(reader);
    if (result.count != 0) sys::identify(file.fd, result.file);
  }
  sys::close(file.fd);
  return is_elf;
}

}  // namespace heapprof::intercept
