// Functions of a loaded object by name, from its file: .symtab, which most programs that carry their own allocator
// have and which names what the object does not export, and .dynsym.
//
// The file is read into memory of ours (a mapping could be cut under us, which raises SIGBUS), and believed only
// where its bytes are those in memory: it may have been replaced since it was loaded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/intercept/allocator_functions.h"

namespace heapprof::intercept {

/// A function found. `address` is in memory.
struct Function {
  std::uint64_t address;
  std::uint64_t size;  ///< 0: unknown
  Name name;
  bool indirect;       ///< STT_GNU_IFUNC: the address is that of its resolver
  char symbol[44];     ///< cut when longer
};

inline constexpr std::size_t kMaxFunctions = 192;

/// What an object's symbols tell.
struct Symbols {
  Function functions[kMaxFunctions];
  std::size_t count;
  bool has_symtab;       ///< else only exported functions are known
  bool imports_dlopen;   ///< the object itself may load others
  bool sanitizer;        ///< the object is or holds a sanitizer's run-time library
  std::uint8_t core;     ///< of the plain names: kCore...
  std::uint64_t text_begin;  ///< of the executable segment that holds the first function, in memory
  std::uint64_t text_end;
  std::uint64_t image_begin;  ///< all segments
  std::uint64_t image_end;
};

/// Reads the file at `path`, loaded with `load_bias`, into `result` (zeroed memory). False: it cannot be read.
bool read_symbols(const char* path, std::uint64_t load_bias, Symbols& result) noexcept;

/// An allocator's name in the read-only data of the file, for programs without symbols; null when there is none.
const char* recognise(const char* path) noexcept;

}  // namespace heapprof::intercept
