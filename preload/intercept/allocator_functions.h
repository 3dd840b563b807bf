// Recognises the functions of allocators by symbol name: those of jemalloc, tcmalloc, mimalloc, snmalloc and scudo,
// and libc's own names, under which a program may define a replacement.
#pragma once

#include <cstdint>

namespace heapprof::intercept {

enum class Family : std::uint8_t {
  kJemalloc,  ///< with a prefix: _rjem_ (Rust), je_
  kTcmalloc,  ///< tc_ (gperftools), TCMallocInternal (Google)
  kMimalloc,
  kSnmalloc,
  kScudo,
  kPlain,     ///< libc's names, and jemalloc's own without a prefix
  kOperator,  ///< C++ operator new and delete
};

/// What a function does.
enum class Kind : std::uint8_t {
  kAllocate,                ///< returns a block of `size` bytes, or null
  kAllocateThroughPointer,  ///< posix_memalign: returns an int, and stores the block through `pointer`
  kDuplicateString,         ///< returns a copy of the string `pointer`, of at most `size` characters, or null
  kReallocate,              ///< reallocates `pointer`; returns null when it failed and the block stays allocated
  kReallocateOrFree,        ///< reallocf: the same, but frees the block when it failed
  kResizeInPlace,           ///< xallocx: resizes the block `pointer`, and returns its size now
  kFree,
};

/// What a function does, and the numbers, from 0, of the integer parameters with its arguments.
struct Signature {
  Kind kind;
  bool throws;           ///< may throw: operator new
  std::uint8_t pointer;  ///< see Kind; otherwise the block
  std::uint8_t size;     ///< kNoArgument, for kDuplicateString: no limit
  std::uint8_t count;    ///< multiplied with `size`; kNoArgument: 1
  bool operator==(const Signature&) const = default;
};

inline constexpr std::uint8_t kNoArgument = 255;

struct AllocatorFunction {
  Signature signature;
  Family family;
  /// For kPlain: a bit that is set for the functions of kCoreAll. An object that has all of them contains an
  /// allocator. One that has only a function named free does not.
  std::uint8_t core;
};

inline constexpr std::uint8_t kCoreMalloc = 1;
inline constexpr std::uint8_t kCoreFree = 2;
inline constexpr std::uint8_t kCoreCallocOrRealloc = 4;
inline constexpr std::uint8_t kCoreAll = 7;

/// Finds the function with the symbol name `symbol`. Returns false when it is not an allocator's.
bool find_allocator_function(const char* symbol, AllocatorFunction& result) noexcept;

/// The name of the allocator, for people.
const char* family_name(Family family) noexcept;

}  // namespace heapprof::intercept
