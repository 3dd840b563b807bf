#include "preload/unwind/elf_object.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstring>

#include "preload/sys/kernel.h"
#include "preload/sys/loader.h"
#include "preload/sys/proc_maps.h"
#include "preload/unwind/dwarf.h"
#include "preload/unwind/unwinder.h"

// Tests define another symbol: one that does not exist, as with an older libc, or a function of the test.
#ifndef HEAPPROF_FIND_OBJECT
#define HEAPPROF_FIND_OBJECT "_dl_find_object"
#endif

// Weak, and not <dlfcn.h>'s declaration, so that the library can be built and loaded with a libc that lacks it
// (before glibc 2.35). The structure is ABI: glibc manual, "Dynamic Linker Introspection".
struct FindObjectResult {
  unsigned long long flags;
  void* map_begin;
  void* map_end;
  link_map* object;
  void* eh_frame_hdr;
  unsigned long long reserved[7];
};
extern "C" {
[[gnu::weak]] int heapprof_dl_find_object(void* address, FindObjectResult* result) __asm__(HEAPPROF_FIND_OBJECT);
}

namespace heapprof::unwind {

namespace detail {
constinit std::uint64_t loader_begin = 0;
constinit std::uint64_t loader_bytes = 0;
}  // namespace detail

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kMaxPathBytes = 4096;
static_assert(kPathMemoryBytes >= kMaxPathBytes + kPage);

constinit const link_map* g_main = nullptr;
constinit Span g_main_map;  ///< all segments of the program; the kernel may have mapped them with gaps
constinit Span g_vdso;
constinit const char* g_executed = nullptr;  ///< AT_EXECFN

constexpr std::uint64_t page_of(std::uint64_t address) noexcept { return address & ~(kPage - 1); }
constexpr std::uint64_t page_end(std::uint64_t address) noexcept { return page_of(address + kPage - 1); }

// ---- ELF headers in memory -------------------------------------------------------------------------

struct ProgramHeaders {
  const ElfW(Phdr) * begin = nullptr;
  std::uint32_t count = 0;
  std::uint64_t load_bias = 0;
};

/// Finds the program headers of the object mapped at map.begin. Returns false if the object's first segment does not
/// contain them, which requires a linker script.
bool read_headers(const Span& map, ProgramHeaders& headers) noexcept {
  const auto* elf = reinterpret_cast<const ElfW(Ehdr)*>(map.begin);
  if (map.end - map.begin < sizeof *elf || std::memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phnum == 0 || elf->e_phnum > 64) return false;
  const std::uint64_t bytes = std::uint64_t{elf->e_phnum} * sizeof(ElfW(Phdr));
  if (elf->e_phoff > kPage - bytes || elf->e_phoff % alignof(ElfW(Phdr)) != 0) return false;
  headers.begin = reinterpret_cast<const ElfW(Phdr)*>(map.begin + elf->e_phoff);
  headers.count = elf->e_phnum;
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& segment = headers.begin[i];
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset != 0) return false;
    headers.load_bias = map.begin - page_of(segment.p_vaddr);
    return true;
  }
  return false;
}

/// Returns the readable segment that holds `address`; empty when there is none.
Span segment_of(const ProgramHeaders& headers, const Span& map, std::uint64_t address) noexcept {
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& segment = headers.begin[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_R) == 0) continue;
    const std::uint64_t begin = headers.load_bias + segment.p_vaddr;
    if (segment.p_filesz > map.end - map.begin) continue;
    const Span span{begin, begin + segment.p_filesz};
    if (span.begin >= map.begin && span.end <= map.end && span.contains(address)) return span;
  }
  return {};
}

Span find_build_id(const ProgramHeaders& headers, const Span& map) noexcept {
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& notes = headers.begin[i];
    if (notes.p_type != PT_NOTE || notes.p_filesz < sizeof(ElfW(Nhdr))) continue;
    std::uint64_t at = headers.load_bias + notes.p_vaddr;
    const std::uint64_t end = at + notes.p_filesz;
    const Span segment = segment_of(headers, map, at);
    if (segment.end < end) continue;
    const std::uint64_t align = notes.p_align == 8 ? 7 : 3;
    while (end - at >= sizeof(ElfW(Nhdr)) && at < end) {
      ElfW(Nhdr) note;  // copied, because the segment may be unaligned
      std::memcpy(&note, reinterpret_cast<const void*>(at), sizeof note);
      const std::uint64_t name = at + sizeof note;
      const std::uint64_t description = name + ((note.n_namesz + align) & ~align);
      if (note.n_namesz > 4096 || note.n_descsz > 4096 || description + note.n_descsz > end) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(reinterpret_cast<const char*>(name), "GNU", 4) == 0)
        return {description, description + note.n_descsz};
      at = description + ((note.n_descsz + align) & ~align);
    }
  }
  return {};
}

/// Returns where the last segment ends, rounded up as the kernel maps it.
std::uint64_t end_of_segments(const ProgramHeaders& headers) noexcept {
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& segment = headers.begin[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t end = page_end(headers.load_bias + segment.p_vaddr + segment.p_memsz);
    if (end > last) last = end;
  }
  return last;
}

// ---- /proc/self/maps -------------------------------------------------------------------------------

/// Finds the path of the file that is mapped at `address`. `memory`: kPathMemoryBytes; the path is at its beginning.
bool read_mapped_path(std::uint64_t address, char* memory) noexcept {
  sys::MapsReader reader(memory + kMaxPathBytes, kPathMemoryBytes - kMaxPathBytes);
  sys::Mapping mapping;
  bool found = false;
  while (!found && reader.next(mapping, memory, kMaxPathBytes))
    found = address >= mapping.begin && address < mapping.end;
  reader.close();
  return found && memory[0] == '/' && !mapping.path_truncated;
}

/// Replaces _dl_find_object for older libcs: successive mappings of one file, of which the first one begins at offset
/// 0, are an object.
bool find_in_maps(std::uint64_t pc, ObjectLocation& location) noexcept {
  auto* memory = static_cast<char*>(sys::map_private(kPage));
  if (memory == nullptr) return false;
  sys::MapsReader reader(memory, kPage);
  sys::Mapping mapping;
  char no_path[1];
  Span map;
  std::uint64_t inode = 0;
  while (reader.next(mapping, no_path, sizeof no_path)) {
    if (mapping.inode != 0 && mapping.inode == inode && mapping.file_offset != 0) {
      map.end = mapping.end;
    } else if (mapping.inode != 0 && mapping.file_offset == 0) {
      if (map.contains(pc)) break;
      map = {mapping.begin, mapping.end};
      inode = mapping.inode;
    } else if (mapping.inode != 0 || mapping.begin != map.end) {
      if (map.contains(pc)) break;
      map = {};
      inode = 0;
    } else {
      map.end = mapping.end;  // the zeroed end of a data segment
    }
  }
  reader.close();
  sys::unmap_private(memory, kPage);
  if (!map.contains(pc)) return false;
  location.map = map;
  return true;
}

/// Sets g_main_map to the range from the program's first segment to its last. AT_PHDR is right even if the loader was
/// executed with the program as an argument: the loader corrects it (glibc, elf/rtld.c).
void find_main_map() noexcept {
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const std::uint64_t count = getauxval(AT_PHNUM);
  Span map{~std::uint64_t{0}, 0};
  for (std::uint64_t i = 0; segments != nullptr && i < count; ++i) {
    if (segments[i].p_type != PT_LOAD) continue;
    const std::uint64_t begin = page_of(g_main->l_addr + segments[i].p_vaddr);
    const std::uint64_t end = page_end(g_main->l_addr + segments[i].p_vaddr + segments[i].p_memsz);
    if (begin < map.begin) map.begin = begin;
    if (end > map.end) map.end = end;
  }
  if (map.contains(reinterpret_cast<std::uint64_t>(segments))) g_main_map = map;
}

// ---- identity ----------------------------------------------------------------------------------------

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  __extension__ using Product = unsigned __int128;
  const auto product = static_cast<Product>(hash ^ value) * 0x9e3779b97f4a7c15;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t mix_bytes(std::uint64_t hash, const void* bytes, std::size_t size) noexcept {
  const auto* at = static_cast<const unsigned char*>(bytes);
  for (; size >= 8; size -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    hash = mix(hash, word);
  }
  std::uint64_t word = size;
  for (; size != 0; --size) word = word << 8 | *at++;
  return mix(hash, word);
}

}  // namespace

void read_object(const ObjectLocation& location, ElfObject& object) noexcept {
  object.map = location.map;
  object.main = location.main;
  object.load_bias = location.load_bias;
  object.eh_frame_hdr = location.eh_frame_hdr;
  object.hdr_segment = object.eh_frame_segment = object.text = location.map;
  object.build_id = object.eh_frame = {};
  ProgramHeaders headers;
  if (read_headers(location.map, headers)) {
    if (location.load_bias_known) headers.load_bias = location.load_bias;
    object.load_bias = headers.load_bias;
    // In /proc/self/maps, anonymous memory of the program directly behind the object looks like a part of it.
    if (const std::uint64_t end = end_of_segments(headers); end > object.map.begin && end < object.map.end)
      object.map.end = end;
    object.text = {};
    for (std::uint32_t i = 0; i < headers.count; ++i) {
      const auto& segment = headers.begin[i];
      const std::uint64_t begin = headers.load_bias + segment.p_vaddr;
      if (segment.p_type == PT_GNU_EH_FRAME) object.eh_frame_hdr = begin;
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      if (segment.p_filesz > object.text.end - object.text.begin) object.text = {begin, begin + segment.p_filesz};
    }
    object.hdr_segment = segment_of(headers, location.map, object.eh_frame_hdr);
    if (object.hdr_segment.end - object.hdr_segment.begin < 8) object.eh_frame_hdr = 0;
    object.build_id = find_build_id(headers, location.map);
  }
  object.eh_frame_segment = object.hdr_segment;
  if (object.eh_frame_hdr != 0 && object.hdr_segment.end - object.eh_frame_hdr >= 8) {
    // eh_frame_ptr, nearly always 4 bytes relative to itself (LSB 5.0, 10.6.2). It may point to another segment.
    const auto* header = reinterpret_cast<const std::uint8_t*>(object.eh_frame_hdr);
    std::int32_t offset;
    std::memcpy(&offset, header + 4, sizeof offset);
    const std::uint64_t eh_frame = object.eh_frame_hdr + 4 + static_cast<std::uint64_t>(std::int64_t{offset});
    const bool usual_encoding = header[1] == (DW_EH_PE_pcrel | DW_EH_PE_sdata4);
    if (usual_encoding && !object.hdr_segment.contains(eh_frame) && headers.count != 0)
      object.eh_frame_segment = segment_of(headers, location.map, eh_frame);
  } else {
    object.eh_frame_hdr = 0;
  }

  std::uint64_t hash = mix(object.map.begin, object.map.end);
  hash = mix(mix(hash, object.load_bias), object.eh_frame_hdr);
  if (object.build_id.begin != object.build_id.end) {
    hash = mix_bytes(hash, reinterpret_cast<const void*>(object.build_id.begin),
                     object.build_id.end - object.build_id.begin);
  } else if (object.eh_frame_hdr != 0) {
    const std::uint64_t bytes = object.hdr_segment.end - object.eh_frame_hdr;
    hash = mix_bytes(hash, reinterpret_cast<const void*>(object.eh_frame_hdr), bytes < 4096 ? bytes : 4096);
  }
  if (location.name != nullptr) hash = mix_bytes(hash, location.name, std::strlen(location.name));
  object.identity = hash;
}

namespace {

/// Whether the section of the file `fd` is .eh_frame. `names`: the section of names.
bool is_eh_frame(int fd, const ElfW(Shdr) & section, const ElfW(Shdr) & names) noexcept {
  static constexpr char kName[] = ".eh_frame";
  char name[sizeof kName];
  return (section.sh_flags & SHF_ALLOC) != 0 && section.sh_type != SHT_NOBITS &&
         sys::pread(fd, name, sizeof name, names.sh_offset + section.sh_name) == sizeof name &&
         std::memcmp(name, kName, sizeof kName) == 0;
}

Span eh_frame_of_file(int fd, const ElfObject& object) noexcept {
  ElfW(Ehdr) header;
  ElfW(Shdr) names, section;
  const auto read_section = [&](std::uint32_t index, ElfW(Shdr) & to) noexcept {
    return sys::pread(fd, &to, sizeof to, header.e_shoff + index * sizeof to) == sizeof to;
  };
  // The file may have been replaced since it was loaded.
  if (sys::pread(fd, &header, sizeof header, 0) != sizeof header ||
      std::memcmp(&header, reinterpret_cast<const void*>(object.map.begin), sizeof header) != 0 ||
      header.e_shentsize != sizeof section || !read_section(header.e_shstrndx, names))
    return {};
  for (std::uint32_t i = 0; i < header.e_shnum; ++i) {
    if (!read_section(i, section)) return {};
    if (!is_eh_frame(fd, section, names)) continue;
    const std::uint64_t begin = object.load_bias + section.sh_addr;
    ProgramHeaders headers;
    if (!read_headers(object.map, headers)) return {};
    const Span segment = segment_of(headers, object.map, begin);
    if (segment.end == 0 || section.sh_size > segment.end - begin) return {};
    return {begin, begin + section.sh_size};
  }
  return {};
}

}  // namespace

void find_eh_frame(ElfObject& object) noexcept {
  if (object.map.begin == g_vdso.begin || object.map.end - object.map.begin < sizeof(ElfW(Ehdr))) return;
  auto* const memory = static_cast<char*>(sys::map_private(kPathMemoryBytes));
  if (memory == nullptr) return;
  if (read_mapped_path(object.map.begin, memory)) {
    const int fd = sys::open(memory, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (!sys::failed(fd)) {
      object.eh_frame = eh_frame_of_file(fd, object);
      sys::close(fd);
    }
  }
  sys::unmap_private(memory, kPathMemoryBytes);
}

void start_elf_objects() noexcept {
  g_executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  ProgramHeaders headers;
  if (const std::uint64_t vdso = sys::vdso_address(); vdso != 0 && read_headers({vdso, vdso + kPage}, headers)) {
    for (std::uint32_t i = 0; i < headers.count; ++i)
      if (headers.begin[i].p_type == PT_LOAD) g_vdso = {vdso, vdso + page_end(headers.begin[i].p_memsz)};
  }
  const r_debug* const loader = sys::loader();
  if (loader == nullptr || loader->r_ldbase == 0) return;
  g_main = loader->r_map;  // the first entry of the list is always the program, and is never removed
  find_main_map();
  // musl never unloads an object, and its code is not only the loader's: its events mean nothing.
  if (sys::is_musl()) return;
  const std::uint64_t base = loader->r_ldbase;
  if (!read_headers({base, base + kPage}, headers)) return;
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& segment = headers.begin[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    detail::loader_begin = headers.load_bias + segment.p_vaddr;
    detail::loader_bytes = segment.p_memsz;
    return;
  }
}

bool find_object(std::uint64_t pc, ObjectLocation& location) noexcept {
  if (heapprof_dl_find_object != nullptr) {
    FindObjectResult result;
    if (heapprof_dl_find_object(reinterpret_cast<void*>(pc), &result) == 0) {
      location.map = {reinterpret_cast<std::uint64_t>(result.map_begin),
                      reinterpret_cast<std::uint64_t>(result.map_end)};
      location.load_bias = result.object->l_addr;
      location.load_bias_known = true;
      location.eh_frame_hdr = reinterpret_cast<std::uint64_t>(result.eh_frame_hdr);
      location.name = result.object->l_name;
      location.main = result.object == g_main;
      // For an object with gaps between its segments the loader returns one segment. Only the program can have gaps:
      // libraries are mapped as one piece (glibc, elf/dl-map-segments.h).
      if (location.main && g_main_map.contains(pc)) location.map = g_main_map;
      return true;
    }
  } else if (find_in_maps(pc, location)) {
    const auto main_dynamic = g_main == nullptr ? 0 : reinterpret_cast<std::uint64_t>(g_main->l_ld);
    location.main = location.map.contains(main_dynamic);
    return true;
  }
  // The loader's list contains the vdso only if libc uses it.
  if (!g_vdso.contains(pc)) return false;
  location.map = g_vdso;
  return true;
}

const char* find_path(const ElfObject& object, const char* name, char*& memory) noexcept {
  memory = nullptr;
  if (object.map.begin == g_vdso.begin) return "[vdso]";
  if (name == nullptr) name = "";
  if (name[0] == '/') return name;
  memory = static_cast<char*>(sys::map_private(kPathMemoryBytes));
  if (memory != nullptr && read_mapped_path(object.map.begin, memory)) return memory;
  return object.main && g_executed != nullptr ? g_executed : name;
}

// Another thread may unload the object at the same time, so its link_map must not be read.
bool is_code(std::uint64_t pc) noexcept {
  if (heapprof_dl_find_object == nullptr) {
    ObjectLocation location;
    return find_object(pc, location);
  }
  return loaded_range(reinterpret_cast<const void*>(pc)).end != 0 || g_vdso.contains(pc);
}

bool is_unloaded(const void* address) noexcept {
  return heapprof_dl_find_object != nullptr && !is_code(reinterpret_cast<std::uint64_t>(address));
}

Span loaded_range(const void* address) noexcept {
  FindObjectResult result;
  if (heapprof_dl_find_object == nullptr || heapprof_dl_find_object(const_cast<void*>(address), &result) != 0)
    return {};
  return {reinterpret_cast<std::uint64_t>(result.map_begin), reinterpret_cast<std::uint64_t>(result.map_end)};
}

}  // namespace heapprof::unwind
