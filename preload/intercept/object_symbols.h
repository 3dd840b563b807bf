// Finds the allocator functions of a loaded object in its file's symbol tables: .dynsym, and .symtab, which also
// names functions that the object does not export. Most programs with an embedded allocator have a .symtab.
//
// The file may have been replaced since it was loaded, so a function is accepted only if the file's bytes equal
// those in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/intercept/allocator_functions.h"
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

/// Zeroed memory is a valid object, and is what read_object_symbols() expects.
struct ObjectSymbols {
  FunctionSymbol functions[kMaxFunctions];
  std::size_t count;
  bool has_symtab;      ///< false: only exported functions are known
  bool imports_dlopen;  ///< the object may load others
  bool has_sanitizer;   ///< the object is, or contains, a sanitizer's run-time library
  std::uint8_t core;    ///< AllocatorFunction::core of all functions, combined by OR
  unwind::Span text;    ///< the executable segment that contains the first function, in memory
  unwind::Span image;   ///< all segments
};

/// Reads the symbols of the file at `path`, which is loaded with `load_bias`. Returns false when it cannot be read.
bool read_object_symbols(const char* path, std::uint64_t load_bias, ObjectSymbols& result) noexcept;

}  // namespace heapprof::intercept
