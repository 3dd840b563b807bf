// ELF objects in memory: finds the object that holds an address, and reads what unwinding needs from its headers.
//
// Objects are found by _dl_find_object, which takes no lock (glibc 2.35 and later), or in /proc/self/maps with older
// libcs. The memory of an object may be read only while nothing can unload it. So find_object() and read_object() may
// only be called for code that stays loaded, such as the code of frames on the calling thread's own stack. is_code(),
// is_unloaded() and loaded_range() read no memory of the object and may be called for any address.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::unwind {

/// Readable memory: [begin, end).
struct Span {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  bool contains(std::uint64_t address) const noexcept { return address - begin < end - begin; }
};

/// Where an object is mapped, as the loader or the kernel reports it.
struct ObjectLocation {
  Span map;
  std::uint64_t load_bias = 0;
  bool load_bias_known = false;
  std::uint64_t eh_frame_hdr = 0;
  const char* name = nullptr;  ///< the loader's name; valid while the object stays loaded
  bool main = false;
};

/// What unwinding needs of an object.
struct ElfObject {
  bool main;  ///< the program itself
  Span map;
  std::uint64_t load_bias;     ///< address in memory minus address in the ELF file
  std::uint64_t identity;      ///< hash of what distinguishes it from another object at the same address
  std::uint64_t eh_frame_hdr;  ///< 0: none
  Span hdr_segment;            ///< the segment that holds .eh_frame_hdr
  Span eh_frame_segment;       ///< the segment that holds .eh_frame
  Span eh_frame;               ///< .eh_frame, where there is no .eh_frame_hdr: see find_eh_frame()
  Span text;                   ///< the largest executable segment
  Span build_id;
};

/// Finds the loader, the main program and the vdso. Call it once, before everything else here.
void start_elf_objects() noexcept;

/// Finds the object that holds `pc`. Returns false when there is none.
bool find_object(std::uint64_t pc, ObjectLocation& location) noexcept;

/// Reads the headers of the object at `location`.
void read_object(const ObjectLocation& location, ElfObject& object) noexcept;

/// Finds .eh_frame of an object without .eh_frame_hdr by the section headers of its file. Debian's musl-gcc links
/// programs so. Costs some ten system calls.
void find_eh_frame(ElfObject& object) noexcept;

/// Returns the object's path: absolute, "[vdso]" for the vdso, else `name`, the loader's. The path may be in
/// `memory`, which is set to null or to kPathMemoryBytes of mapped memory that the caller unmaps after use.
const char* find_path(const ElfObject& object, const char* name, char*& memory) noexcept;
inline constexpr std::size_t kPathMemoryBytes = 8192;

/// Returns whether an object holds this address.
bool is_code(std::uint64_t pc) noexcept;

/// Returns true if it is certain that no object holds this address. Makes no system call and takes no lock. Always
/// false without _dl_find_object.
bool is_unloaded(const void* address) noexcept;

/// Returns where the object that holds this address is mapped; empty when there is none, or without _dl_find_object.
Span loaded_range(const void* address) noexcept;

}  // namespace heapprof::unwind
