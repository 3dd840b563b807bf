#include "preload/unwind/modules.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#include <cstring>

#include "preload/sys/kernel.h"
#include "preload/unwind/cfi.h"

// Tests name another symbol, one that does not exist, to be on an older libc.
#ifndef HEAPPROF_FIND_OBJECT
#define HEAPPROF_FIND_OBJECT "_dl_find_object"
#endif

// Weak, and without <dlfcn.h>'s own declaration, so that the library is built and loaded with a libc that
// does not have it (before glibc 2.35). The structure is ABI: glibc manual, "Dynamic Linker Introspection".
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
extern r_debug _r_debug [[gnu::weak]];  // ld.so, GLIBC_2.2.5: where the loader and the main program are

namespace heapprof::unwind {

namespace detail {
constinit std::uint64_t loader_begin = 0;
constinit std::uint64_t loader_bytes = 0;
constinit std::atomic<std::uint64_t> generation{1};
constinit ModuleState module_states[kMaxModules] = {};
}  // namespace detail

namespace {

constexpr std::uint32_t kChunk = 128;
constexpr std::uint32_t kChunks = kMaxModules / kChunk;
constexpr std::uint32_t kHeads = 256;
constexpr std::size_t kPathBytes = 4096;

constinit std::atomic<Module*> g_chunks[kChunks] = {};
constinit std::atomic<std::uint32_t> g_count{raw(ModuleId::kFirst)};
constinit std::atomic<std::uint32_t> g_heads[kHeads] = {};  ///< hash of map.begin -> module, linked by next
constinit std::atomic<std::uint32_t> g_trace{1};
constinit const link_map* g_main = nullptr;
constinit Span g_main_map;  ///< all of the program, which the kernel may have mapped with gaps
constinit Span g_vdso;
constinit const char* g_executed = nullptr;  ///< AT_EXECFN

/// An object as the loader or the kernel describes it.
struct Object {
  Span map;
  std::uint64_t load_bias = 0;
  bool load_bias_known = false;
  std::uint64_t eh_frame_hdr = 0;
  const char* name = nullptr;
  bool main = false;
};

// ---- ELF headers in memory -------------------------------------------------------------------------

struct ProgramHeaders {
  const ElfW(Phdr)* begin = nullptr;
  std::uint32_t count = 0;
  std::uint64_t load_bias = 0;
};

/// The program headers of the object mapped at map.begin, if its first segment holds them, as it does
/// unless a linker script says otherwise.
bool read_headers(const Span& map, ProgramHeaders& headers) noexcept {
  const auto* elf = reinterpret_cast<const ElfW(Ehdr)*>(map.begin);
  if (map.end - map.begin < sizeof *elf || std::memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (elf->e_phentsize != sizeof(ElfW(Phdr)) || elf->e_phnum == 0 || elf->e_phnum > 64) return false;
  const std::uint64_t bytes = std::uint64_t{elf->e_phnum} * sizeof(ElfW(Phdr));
  if (elf->e_phoff > 4096 - bytes || elf->e_phoff % alignof(ElfW(Phdr)) != 0) return false;
  headers.begin = reinterpret_cast<const ElfW(Phdr)*>(map.begin + elf->e_phoff);
  headers.count = elf->e_phnum;
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& segment = headers.begin[i];
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_offset != 0) return false;
    headers.load_bias = map.begin - (segment.p_vaddr & ~std::uint64_t{4095});
    return true;
  }
  return false;
}

/// The readable segment that holds `address`; empty when there is none.
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
      ElfW(Nhdr) note;  // a copy: where a segment begins is the linker's word
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

// ---- /proc/self/maps -------------------------------------------------------------------------------

/// One pass over /proc/self/maps, for libcs without _dl_find_object and for paths that the loader does not
/// know. Lines are cut out of a buffer of two pages that also holds the result.
class MapsReader {
 public:
  static constexpr std::size_t kBufferBytes = 3 * kPathBytes;

  MapsReader(char* buffer) noexcept : buffer_(buffer) { fd_ = sys::open("/proc/self/maps", O_RDONLY | O_CLOEXEC); }

  struct Line {
    Span range;
    std::uint64_t offset = 0;
    std::uint64_t inode = 0;
    const char* path = nullptr;  ///< NUL-terminated, empty when there is none
  };

  bool next(Line& line) noexcept {
    for (;;) {
      if (char* end = static_cast<char*>(std::memchr(buffer_ + at_, '\n', length_ - at_))) {
        *end = '\0';
        const char* text = buffer_ + at_;
        at_ = static_cast<std::size_t>(end - buffer_) + 1;
        return parse(text, line);
      }
      if (sys::failed(fd_)) return false;
      std::memmove(buffer_, buffer_ + at_, length_ - at_);
      length_ -= at_;
      at_ = 0;
      if (length_ == kBufferBytes) return false;
      const long got = sys::read(fd_, buffer_ + length_, kBufferBytes - length_);
      if (got <= 0) return false;
      length_ += static_cast<std::size_t>(got);
    }
  }

  void close() noexcept {
    if (!sys::failed(fd_)) sys::close(fd_);
  }

 private:
  static std::uint64_t number(const char*& at, unsigned base) noexcept {
    std::uint64_t value = 0;
    for (;; ++at) {
      unsigned digit;
      if (*at >= '0' && *at <= '9') digit = static_cast<unsigned>(*at - '0');
      else if (base == 16 && *at >= 'a' && *at <= 'f') digit = static_cast<unsigned>(*at - 'a') + 10;
      else return value;
      value = value * base + digit;
    }
  }

  /// begin-end rwxp offset major:minor inode   path
  static bool parse(const char* at, Line& line) noexcept {
    line.range.begin = number(at, 16);
    if (*at++ != '-') return false;
    line.range.end = number(at, 16);
    for (unsigned i = 0; i < 6; ++i)
      if (*at++ == '\0') return false;
    line.offset = number(at, 16);
    while (*at == ' ') ++at;
    number(at, 16);
    if (*at++ != ':') return false;
    number(at, 16);
    while (*at == ' ') ++at;
    line.inode = number(at, 10);
    while (*at == ' ') ++at;
    line.path = at;
    return true;
  }

  char* buffer_;
  std::size_t at_ = 0;
  std::size_t length_ = 0;
  int fd_;
};

/// The path of the file mapped at `address`, into `path`; false when it cannot be told.
bool mapped_path(std::uint64_t address, char* path) noexcept {
  auto* buffer = static_cast<char*>(sys::map_private(MapsReader::kBufferBytes));
  if (buffer == nullptr) return false;
  MapsReader reader(buffer);
  MapsReader::Line line;
  bool found = false;
  while (!found && reader.next(line)) {
    if (!line.range.contains(address)) continue;
    const std::size_t length = std::strlen(line.path);
    if (line.path[0] != '/' || length >= kPathBytes) break;
    std::memcpy(path, line.path, length + 1);
    found = true;
  }
  reader.close();
  sys::unmap(buffer, MapsReader::kBufferBytes);
  return found;
}

/// As _dl_find_object, for libcs that do not have it: the mappings of one file that follow each other,
/// from offset 0, are an object.
bool find_in_maps(std::uint64_t pc, Object& object) noexcept {
  auto* buffer = static_cast<char*>(sys::map_private(MapsReader::kBufferBytes));
  if (buffer == nullptr) return false;
  MapsReader reader(buffer);
  MapsReader::Line line;
  Span map;
  std::uint64_t inode = 0;
  while (reader.next(line)) {
    if (line.inode != 0 && line.inode == inode && line.offset != 0) {
      map.end = line.range.end;
    } else if (line.inode != 0 && line.offset == 0) {
      if (map.contains(pc)) break;
      map = line.range;
      inode = line.inode;
    } else if (line.inode != 0 || line.range.begin != map.end) {
      if (map.contains(pc)) break;
      map = {};
      inode = 0;
    } else {
      map.end = line.range.end;  // the zeroed end of a data segment
    }
  }
  reader.close();
  sys::unmap(buffer, MapsReader::kBufferBytes);
  if (!map.contains(pc)) return false;
  object.map = map;
  return true;
}

// ---- finding ---------------------------------------------------------------------------------------

bool find_object(std::uint64_t pc, Object& object) noexcept {
  if (heapprof_dl_find_object != nullptr) {
    FindObjectResult result;
    if (heapprof_dl_find_object(reinterpret_cast<void*>(pc), &result) == 0) {
      object.map = {reinterpret_cast<std::uint64_t>(result.map_begin),
                    reinterpret_cast<std::uint64_t>(result.map_end)};
      object.load_bias = result.object->l_addr;
      object.load_bias_known = true;
      object.eh_frame_hdr = reinterpret_cast<std::uint64_t>(result.eh_frame_hdr);
      object.name = result.object->l_name;
      object.main = result.object == g_main;
      // Of an object with gaps the loader tells the one segment. Only the program can have gaps: libraries
      // are mapped as one piece (glibc, elf/dl-map-segments.h).
      if (object.main && g_main_map.contains(pc)) object.map = g_main_map;
      return true;
    }
  } else if (find_in_maps(pc, object)) {
    const auto main_dynamic = g_main == nullptr ? 0 : reinterpret_cast<std::uint64_t>(g_main->l_ld);
    object.main = object.map.contains(main_dynamic);
    return true;
  }
  // The kernel's own object is known to the loader only where libc uses it.
  if (!g_vdso.contains(pc)) return false;
  object.map = g_vdso;
  return true;
}

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

/// Where the last segment ends, as the kernel maps it.
std::uint64_t end_of_segments(const ProgramHeaders& headers) noexcept {
  std::uint64_t last = 0;
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& segment = headers.begin[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uint64_t end = (headers.load_bias + segment.p_vaddr + segment.p_memsz + 4095) & ~std::uint64_t{4095};
    if (end > last) last = end;
  }
  return last;
}

/// Reads what there is to know about an object that is on the caller's stack.
void describe(const Object& object, Module& module) noexcept {
  module.map = object.map;
  module.main = object.main;
  module.load_bias = object.load_bias;
  module.eh_frame_hdr = object.eh_frame_hdr;
  module.headers = module.frames = module.text = object.map;
  module.build_id = {};
  ProgramHeaders headers;
  if (read_headers(object.map, headers)) {
    if (object.load_bias_known) headers.load_bias = object.load_bias;
    module.load_bias = headers.load_bias;
    // In /proc/self/maps, memory of the program's that lies right behind the object looks like a part of it.
    if (const std::uint64_t end = end_of_segments(headers); end > module.map.begin && end < module.map.end)
      module.map.end = end;
    module.text = {};
    for (std::uint32_t i = 0; i < headers.count; ++i) {
      const auto& segment = headers.begin[i];
      const std::uint64_t begin = headers.load_bias + segment.p_vaddr;
      if (segment.p_type == PT_GNU_EH_FRAME) module.eh_frame_hdr = begin;
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
      if (segment.p_filesz > module.text.end - module.text.begin) module.text = {begin, begin + segment.p_filesz};
    }
    module.headers = segment_of(headers, object.map, module.eh_frame_hdr);
    if (module.headers.end - module.headers.begin < 8) module.eh_frame_hdr = 0;
    module.build_id = find_build_id(headers, object.map);
  }
  module.frames = module.headers;
  if (module.eh_frame_hdr != 0 && module.headers.end - module.eh_frame_hdr >= 8) {
    // eh_frame_ptr, nearly always 4 bytes relative to itself (LSB 5.0, 10.6.2); may be another segment.
    const auto* header = reinterpret_cast<const std::uint8_t*>(module.eh_frame_hdr);
    std::int32_t offset;
    std::memcpy(&offset, header + 4, sizeof offset);
    const std::uint64_t frames = module.eh_frame_hdr + 4 + static_cast<std::uint64_t>(std::int64_t{offset});
    if (header[1] == 0x1b && !module.headers.contains(frames) && headers.count != 0)
      module.frames = segment_of(headers, object.map, frames);
  } else {
    module.eh_frame_hdr = 0;
  }

  std::uint64_t hash = mix(module.map.begin, module.map.end);
  hash = mix(mix(hash, module.load_bias), module.eh_frame_hdr);
  if (module.build_id.begin != module.build_id.end) {
    hash = mix_bytes(hash, reinterpret_cast<const void*>(module.build_id.begin),
                     module.build_id.end - module.build_id.begin);
  } else if (module.eh_frame_hdr != 0) {
    const std::uint64_t bytes = module.headers.end - module.eh_frame_hdr;
    hash = mix_bytes(hash, reinterpret_cast<const void*>(module.eh_frame_hdr), bytes < 4096 ? bytes : 4096);
  }
  if (object.name != nullptr) hash = mix_bytes(hash, object.name, std::strlen(object.name));
  module.identity = hash;
}

Module* module_at(std::uint32_t index) noexcept {
  return &g_chunks[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
}

std::atomic<std::uint32_t>& head_of(std::uint64_t map_begin) noexcept {
  return g_heads[(map_begin >> 12) * 0x9e3779b97f4a7c15 >> 56];
}
static_assert(kHeads == 1u << (64 - 56));

/// Searches the modules from `index` on, along `next`, before `end`.
Module* find_known(const Module& wanted, std::uint32_t index, std::uint32_t end) noexcept {
  while (index != end) {
    Module* module = module_at(index);
    if (module->identity == wanted.identity && module->map.begin == wanted.map.begin) return module;
    index = module->next;
  }
  return nullptr;
}

/// Room for one more; null when there is none.
Module* allocate(std::uint32_t& index) noexcept {
  index = g_count.load(std::memory_order_relaxed);
  do {
    if (index >= kMaxModules) return nullptr;
  } while (!g_count.compare_exchange_weak(index, index + 1, std::memory_order_acquire, std::memory_order_relaxed));
  auto& chunk = g_chunks[index / kChunk];
  Module* modules = chunk.load(std::memory_order_acquire);
  if (modules == nullptr) {
    auto* fresh = static_cast<Module*>(sys::map_private(kChunk * sizeof(Module)));
    if (fresh == nullptr) return nullptr;
    if (chunk.compare_exchange_strong(modules, fresh, std::memory_order_acq_rel)) modules = fresh;
    else sys::unmap(fresh, kChunk * sizeof(Module));
  }
  return &modules[index % kChunk];
}

/// Gives back what allocate() gave, and no other thread has seen. When another thread has allocated since, the index
/// stays unused.
void give_back(std::uint32_t index) noexcept {
  std::uint32_t count = index + 1;
  g_count.compare_exchange_strong(count, index, std::memory_order_release, std::memory_order_relaxed);
}

/// The module that equals `found`; null: there is no memory. When several threads find a module at once, the first
/// one that puts it at the head of its list gives it its id: the others fail to, look at what was added before
/// theirs, and find it there.
Module* find_or_add(const Module& found) noexcept {
  auto& head = head_of(found.map.begin);
  std::uint32_t first = head.load(std::memory_order_acquire);
  if (Module* known = find_known(found, first, 0)) return known;
  std::uint32_t index;
  Module* const module = allocate(index);
  if (module == nullptr) return nullptr;
  module->id = ModuleId{index};
  module->main = found.main;
  module->map = found.map;
  module->load_bias = found.load_bias;
  module->identity = found.identity;
  module->eh_frame_hdr = found.eh_frame_hdr;
  module->headers = found.headers;
  module->frames = found.frames;
  module->text = found.text;
  module->build_id = found.build_id;
  detail::module_states[index].load_bias = found.load_bias;
  module->next = first;
  while (!head.compare_exchange_strong(first, index, std::memory_order_acq_rel, std::memory_order_acquire)) {
    if (Module* known = find_known(found, first, module->next)) {
      give_back(index);
      return known;
    }
    module->next = first;
  }
  return module;
}

/// The program's segments, from the first to the last. The loader sets AT_PHDR right when it was started by
/// hand (glibc, elf/rtld.c).
void find_main_map() noexcept {
  const auto* segments = reinterpret_cast<const ElfW(Phdr)*>(getauxval(AT_PHDR));
  const std::uint64_t count = getauxval(AT_PHNUM);
  Span map{~std::uint64_t{0}, 0};
  for (std::uint64_t i = 0; segments != nullptr && i < count; ++i) {
    if (segments[i].p_type != PT_LOAD) continue;
    const std::uint64_t begin = (g_main->l_addr + segments[i].p_vaddr) & ~std::uint64_t{4095};
    const std::uint64_t end =
        (g_main->l_addr + segments[i].p_vaddr + segments[i].p_memsz + 4095) & ~std::uint64_t{4095};
    if (begin < map.begin) map.begin = begin;
    if (end > map.end) map.end = end;
  }
  if (map.contains(reinterpret_cast<std::uint64_t>(segments))) g_main_map = map;
}

}  // namespace

void start_modules() noexcept {
  // Enough for nearly every program, and there when system calls are forbidden later.
  if (g_chunks[0].load(std::memory_order_relaxed) == nullptr)
    g_chunks[0].store(static_cast<Module*>(sys::map_private(kChunk * sizeof(Module))), std::memory_order_release);
  g_executed = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  ProgramHeaders headers;
  if (const std::uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
      vdso != 0 && read_headers({vdso, vdso + 4096}, headers)) {
    for (std::uint32_t i = 0; i < headers.count; ++i)
      if (headers.begin[i].p_type == PT_LOAD) g_vdso = {vdso, vdso + ((headers.begin[i].p_memsz + 4095) & ~4095ul)};
  }
  if (&_r_debug == nullptr || _r_debug.r_ldbase == 0) return;
  g_main = _r_debug.r_map;  // the first of the list, always the program, and never removed
  find_main_map();
  const std::uint64_t base = _r_debug.r_ldbase;
  if (!read_headers({base, base + 4096}, headers)) return;
  for (std::uint32_t i = 0; i < headers.count; ++i) {
    const auto& segment = headers.begin[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    detail::loader_begin = headers.load_bias + segment.p_vaddr;
    detail::loader_bytes = segment.p_memsz;
    return;
  }
}

Module* find_module(std::uint64_t pc, std::uint64_t generation) noexcept {
  Object object;
  if (!find_object(pc, object)) return nullptr;
  Module found{};
  describe(object, found);
  // Without _dl_find_object, memory of the program's that lies right behind an object is taken for a part of it.
  if (!found.map.contains(pc)) return nullptr;
  Module* const module = find_or_add(found);
  if (module == nullptr) return nullptr;
  module->name.store(object.name, std::memory_order_relaxed);
  state_of(module->id).confirmed.store(generation, std::memory_order_release);
  return module;
}

// The object may be on no stack, so that another thread unloads it meanwhile: its link_map is not to be read.
bool is_code(std::uint64_t pc) noexcept {
  if (heapprof_dl_find_object == nullptr) {
    Object object;
    return find_object(pc, object);
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

bool find_function(const Span& map, std::uint64_t pc, Span& function) noexcept {
  Object object;
  object.map = map;
  Module module{};
  describe(object, module);
  CfiEntry entry;
  if (find_cfi(module, pc, entry) != CfiResult::kFound) return false;
  function = {entry.pc_begin, entry.pc_end};
  return true;
}

void announce(Module& module, const Definitions& definitions) noexcept {
  const std::uint32_t trace = g_trace.load(std::memory_order_relaxed);
  if (module.announced.load(std::memory_order_acquire) == trace) return;
  ModuleInfo info{};
  info.id = module.id;
  info.map_begin = module.map.begin;
  info.map_end = module.map.end;
  info.load_bias = module.load_bias;
  info.build_id = reinterpret_cast<const std::uint8_t*>(module.build_id.begin);
  info.build_id_bytes = static_cast<std::uint32_t>(module.build_id.end - module.build_id.begin);
  info.main = module.main;
  const char* const name = module.name.load(std::memory_order_relaxed);
  info.path = name == nullptr ? "" : name;
  char* path = nullptr;
  if (module.map.begin == g_vdso.begin) {
    info.path = "[vdso]";
  } else if (info.path[0] != '/') {
    path = static_cast<char*>(sys::map_private(kPathBytes));
    if (path != nullptr && mapped_path(module.map.begin, path)) info.path = path;
    else if (module.main && g_executed != nullptr) info.path = g_executed;
  }
  definitions.define_module(definitions.context, info);
  module.announced.store(trace, std::memory_order_release);
  if (path != nullptr) sys::unmap(path, kPathBytes);
}

void announce_all_again() noexcept { g_trace.fetch_add(1, std::memory_order_relaxed); }

}  // namespace heapprof::unwind
