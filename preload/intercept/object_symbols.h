// Finds the allocator functions of a loaded object: those that it exports by their hashes in its memory, and those in
// the .symtab of its file, which also names functions that the object does not export. Most programs with an embedded
// allocator have a .symtab. If the object's memory has no hash table, its file's .dynsym is read.
//
// The file may have been replaced since it was loaded, so a function is accepted only if the file's bytes equal
// those in memory.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "preload/intercept/allocator_functions.h"
#include "preload/intercept/elf_file.h"
#include "preload/sys/guarded_read.h"
#include "preload/sys/kernel.h"
#include "preload/unwind/modules.h"

namespace heapprof::intercept {

struct FunctionSymbol {
  std::uint64_t address;  ///< in memory
  std::uint64_t size;     ///< 0: unknown
  AllocatorFunction allocator;
  bool indirect;  ///< STT_GNU_IFUNC: `address` is that of the resolver
  char name[44];  ///< truncated when longer
};

inline constexpr std::size_t kMaxFunctions = 192;

/// Zeroed memory is a valid object. read_object_symbols() expects zeroes from `count` on.
struct ObjectSymbols {
  FunctionSymbol functions[kMaxFunctions];
  std::size_t count;
  bool names_functions;           ///< .symtab has most functions; false: little but exported functions is known
  bool imports_dlopen;            ///< the object may load others
  bool imports_madvise;           ///< the object may return memory to the kernel
  bool imports_known;             ///< all wanted imports were looked for; else those that are false may be imports
  bool has_sanitizer;             ///< the object is, or contains, a sanitizer's run-time library
  std::uint8_t core;              ///< AllocatorFunction::core of all functions, combined by OR
  unwind::Span text;              ///< the executable segment that contains the first function, in memory
  unwind::Span image;             ///< all segments
  sys::FileIdentity file;         ///< the file that was read; only if `count` is not 0
  sys::FileIdentity mapped_file;  ///< the file that is mapped where the first function is
  ElfFile headers;
};

/// Which imports matter. The others may be false in ObjectSymbols for an object that has them: finding out takes
/// longer than everything else.
struct WantedImports {
  bool dlopen;
  bool madvise;
};

/// Reads the symbols of `map`, whose file is at `path`. Returns false when the file cannot be read. A library that
/// has operators new and delete, and no other allocator function, has no functions in `result`.
bool read_object_symbols(const char* path, const link_map& map, sys::GuardedReader& reader, Scratch& scratch,
                         const WantedImports& wanted, ObjectSymbols& result) noexcept;

}  // namespace heapprof::intercept
