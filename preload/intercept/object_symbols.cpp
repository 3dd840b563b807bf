#include "preload/intercept/object_symbols.h"

#include <elf.h>
#include <link.h>

#include "preload/base/text.h"
#include "preload/sys/kernel.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::intercept {

namespace {

/// More than this is no file we can afford to read in somebody else's process.
constexpr std::uint64_t kMaxTableBytes = 512u << 20;

/// Memory of ours for the time of a call.
class Buffer {
 public:
  explicit Buffer(std::uint64_t bytes) noexcept : bytes_(bytes) {
    if (bytes != 0 && bytes <= kMaxTableBytes) memory_ = static_cast<char*>(sys::map_private(bytes));
  }
  Buffer(const Buffer&) = delete;
  void operator=(const Buffer&) = delete;
  ~Buffer() {
    if (memory_ != nullptr) sys::unmap(memory_, bytes_);
  }
  char* data() const noexcept { return memory_; }
  explicit operator bool() const noexcept { return memory_ != nullptr; }

 private:
  std::uint64_t bytes_;
  char* memory_ = nullptr;
};

bool read_at(int fd, void* to, std::uint64_t bytes, std::uint64_t offset) noexcept {
  auto* at = static_cast<char*>(to);
  while (bytes != 0) {
    const long got = sys::pread(fd, at, bytes, offset);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::uint64_t>(got);
    offset += static_cast<std::uint64_t>(got);
  }
  return true;
}

struct File {
  int fd;
  ElfW(Ehdr) header;
  ElfW(Phdr) segments[32];
  unsigned segment_count;
  const ElfW(Phdr)* seen_in_memory;  ///< the segment last found by is_in_memory()
};

bool read_headers(File& file) noexcept {
  if (!read_at(file.fd, &file.header, sizeof file.header, 0)) return false;
  const ElfW(Ehdr)& header = file.header;
  if (__builtin_memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_phentsize != sizeof(ElfW(Phdr)))
    return false;
  file.segment_count = header.e_phnum < 32 ? header.e_phnum : 32;
  return read_at(file.fd, file.segments, file.segment_count * sizeof(ElfW(Phdr)), header.e_phoff);
}

/// The segment that holds these bytes of code.
const ElfW(Phdr)* code_segment(const File& file, std::uint64_t address, std::uint64_t bytes) noexcept {
  for (unsigned i = 0; i < file.segment_count; ++i) {
    const ElfW(Phdr)& segment = file.segments[i];
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz && segment.p_filesz - (address - segment.p_vaddr) >= bytes)
      return &segment;
  }
  return nullptr;
}

/// All of the segment can be read where it would have been loaded. Another file under the same name may have longer
/// ones.
bool is_in_memory(File& file, const ElfW(Phdr)& segment, std::uint64_t load_bias) noexcept {
  if (file.seen_in_memory == &segment) return true;
  const std::uint64_t begin = load_bias + segment.p_vaddr;
  sys::Mapping mapping;
  char no_path[1];
  if (!sys::find_mapping(begin, mapping, no_path, sizeof no_path) || !mapping.readable ||
      mapping.end - begin < segment.p_filesz)
    return false;
  file.seen_in_memory = &segment;
  return true;
}

/// The function's first bytes are in memory what they are in the file.
bool same_in_memory(const File& file, const ElfW(Phdr)& segment, std::uint64_t value,
                    std::uint64_t load_bias) noexcept {
  constexpr std::uint64_t kBytes = 16;
  unsigned char bytes[kBytes];
  const std::uint64_t left = segment.p_filesz - (value - segment.p_vaddr);
  const std::uint64_t count = left < kBytes ? left : kBytes;
  if (!read_at(file.fd, bytes, count, segment.p_offset + (value - segment.p_vaddr))) return false;
  const auto* memory = reinterpret_cast<const unsigned char*>(load_bias + value);
  for (std::uint64_t i = 0; i < count; ++i)
    if (memory[i] != bytes[i]) return false;
  return true;
}

void add(File& file, const ElfW(Sym)& symbol, const char* text, const Name& name, std::uint64_t load_bias,
         Symbols& result) noexcept {
  for (std::size_t i = 0; i < result.count; ++i)  // .symtab and .dynsym name most of them twice
    if (result.functions[i].address == load_bias + symbol.st_value &&
        result.functions[i].name.family == name.family && result.functions[i].name.signature == name.signature) {
      result.core |= name.family == Family::kPlain ? name.core : 0;
      return;
    }
  if (result.count == kMaxFunctions) return;
  const ElfW(Phdr)* segment = code_segment(file, symbol.st_value, 1);
  if (segment == nullptr || !is_in_memory(file, *segment, load_bias) ||
      !same_in_memory(file, *segment, symbol.st_value, load_bias)) return;
  if (result.text_end == 0) {
    result.text_begin = load_bias + segment->p_vaddr;
    result.text_end = result.text_begin + segment->p_filesz;
  }
  if (name.family == Family::kPlain) result.core |= name.core;
  Function& function = result.functions[result.count++];
  function.address = load_bias + symbol.st_value;
  function.size = symbol.st_size;
  function.name = name;
  function.indirect = (symbol.st_info & 0xf) == STT_GNU_IFUNC;
  Text(function.symbol, sizeof function.symbol).add(text);
}

void read_table(File& file, const ElfW(Shdr)& table, const ElfW(Shdr)& strings, std::uint64_t load_bias,
                Symbols& result) noexcept {
  if (table.sh_entsize != sizeof(ElfW(Sym)) || strings.sh_type != SHT_STRTAB || strings.sh_size == 0) return;
  const Buffer symbols(table.sh_size);
  const Buffer names(strings.sh_size);
  if (!symbols || !names || !read_at(file.fd, symbols.data(), table.sh_size, table.sh_offset) ||
      !read_at(file.fd, names.data(), strings.sh_size, strings.sh_offset))
    return;
  names.data()[strings.sh_size - 1] = '\0';
  const auto* symbol = reinterpret_cast<const ElfW(Sym)*>(symbols.data());
  for (std::uint64_t left = table.sh_size / sizeof *symbol; left != 0; --left, ++symbol) {
    const unsigned type = symbol->st_info & 0xf;
    if (symbol->st_shndx == SHN_UNDEF && symbol->st_name < strings.sh_size &&
        text_equal(names.data() + symbol->st_name, "dlopen"))
      result.imports_dlopen = true;
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF ||
        symbol->st_name >= strings.sh_size)
      continue;
    const char* text = names.data() + symbol->st_name;
    Name name;
    if (match(text, name)) add(file, *symbol, text, name, load_bias, result);
    else if (text[0] == '_' && text[1] == '_' &&
             (text_equal(text, "__asan_init") || text_equal(text, "__tsan_init") ||
              text_equal(text, "__msan_init") || text_equal(text, "__lsan_init")))
      result.sanitizer = true;
  }
}

}  // namespace

bool read_symbols(const char* path, std::uint64_t load_bias, Symbols& result) noexcept {
  const Buffer memory(sizeof(File));
  if (!memory) return false;
  auto& file = *reinterpret_cast<File*>(memory.data());
  file.fd = sys::open(path, O_RDONLY | O_CLOEXEC);
  if (sys::failed(file.fd)) return false;
  bool read = read_headers(file);
  if (read) {
    result.image_begin = UINT64_MAX;
    for (unsigned i = 0; i < file.segment_count; ++i) {
      const ElfW(Phdr)& segment = file.segments[i];
      if (segment.p_type != PT_LOAD) continue;
      if (load_bias + segment.p_vaddr < result.image_begin) result.image_begin = load_bias + segment.p_vaddr;
      if (load_bias + segment.p_vaddr + segment.p_memsz > result.image_end)
        result.image_end = load_bias + segment.p_vaddr + segment.p_memsz;
    }
    const ElfW(Ehdr)& header = file.header;
    const Buffer memory_of_sections(header.e_shentsize == sizeof(ElfW(Shdr)) ? header.e_shnum * sizeof(ElfW(Shdr))
                                                                             : 0);
    const auto* sections = reinterpret_cast<const ElfW(Shdr)*>(memory_of_sections.data());
    if (sections != nullptr &&
        read_at(file.fd, memory_of_sections.data(), header.e_shnum * sizeof(ElfW(Shdr)), header.e_shoff)) {
      for (unsigned i = 0; i < header.e_shnum; ++i) {
        const ElfW(Shdr)& section = sections[i];
        if ((section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) || section.sh_link >= header.e_shnum)
          continue;
        result.has_symtab |= section.sh_type == SHT_SYMTAB;
        read_table(file, section, sections[section.sh_link], load_bias, result);
      }
    }
  }
  sys::close(file.fd);
  return read;
}

namespace {

struct Mark {
  const char* allocator;
  const char* text;
  std::size_t malloc_at;  ///< where "malloc" stands in it
};

// What each prints or reads from the environment, so that it is in every build.
constexpr Mark kMarks[] = {{"jemalloc", "<jemalloc>: ", 3},
                           {"mimalloc", "mimalloc: ", 2},
                           {"tcmalloc", "TCMALLOC_SAMPLE_PARAMETER", 2},
                           {"tcmalloc", "tcmalloc: large alloc", 2}};

/// The allocator whose mark is among these bytes; null. Whole programs are searched: sixteen bytes at a time for
/// "mal", which all marks have and little else.
const char* find_mark(const char* begin, std::size_t bytes) noexcept {
  using Vector [[gnu::vector_size(16)]] = unsigned char;
  const auto load = [](const char* at) {
    Vector vector;
    __builtin_memcpy(&vector, at, sizeof vector);
    return vector | 0x20;  // small letters
  };
  for (std::size_t i = 0; i + sizeof(Vector) + 2 <= bytes; i += sizeof(Vector)) {
    const auto hits = (load(begin + i) == 'm') & (load(begin + i + 1) == 'a') & (load(begin + i + 2) == 'l');
    std::uint64_t any[2];
    __builtin_memcpy(any, &hits, sizeof any);
    if ((any[0] | any[1]) == 0) [[likely]] continue;
    for (std::size_t at = i; at < i + sizeof(Vector); ++at)
      for (const Mark& mark : kMarks) {
        const std::size_t length = text_length(mark.text);
        if (at >= mark.malloc_at && at - mark.malloc_at + length <= bytes &&
            __builtin_memcmp(begin + at - mark.malloc_at, mark.text, length) == 0)
          return mark.allocator;
      }
  }
  return nullptr;
}

}  // namespace

const char* recognise(const char* path) noexcept {
  constexpr std::size_t kPiece = 256u << 10;
  constexpr std::size_t kOverlap = 64;  // more than a mark and what a vector leaves at the end
  const Buffer memory(sizeof(File));
  const Buffer piece(kPiece);
  if (!memory || !piece) return nullptr;
  auto& file = *reinterpret_cast<File*>(memory.data());
  file.fd = sys::open(path, O_RDONLY | O_CLOEXEC);
  if (sys::failed(file.fd)) return nullptr;
  const char* found = nullptr;
  for (unsigned i = 0; read_headers(file) && i < file.segment_count && found == nullptr; ++i) {
    const ElfW(Phdr)& segment = file.segments[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & (PF_X | PF_W)) != 0 || segment.p_filesz > kMaxTableBytes)
      continue;
    for (std::uint64_t at = 0; at < segment.p_filesz && found == nullptr; at += kPiece - kOverlap) {
      const long got = sys::pread(file.fd, piece.data(), kPiece, segment.p_offset + at);
      if (got <= 0) break;
      found = find_mark(piece.data(), static_cast<std::size_t>(got));
    }
  }
  sys::close(file.fd);
  return found;
}

}  // namespace heapprof::intercept
