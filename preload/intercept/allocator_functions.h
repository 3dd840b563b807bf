// Recognises the functions of allocators by symbol name: those of jemalloc, tcmalloc, mimalloc, snmalloc and scudo,
// and libc's own names, under which a program may define a replacement.
#pragma once

#include <cstddef>
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
  kResizeInPlace,           ///< xallocx: resizes the block `pointer`, and returns its new size
  kFree,
};

inline constexpr std::uint8_t kNoArgument = 255;

/// What a function does, and which integer parameters, numbered from 0, have its arguments.
struct Signature {
  Kind kind;
  bool throws;           ///< may throw: operator new
  std::uint8_t pointer;  ///< as Kind describes; for kFree, the block
  std::uint8_t size;     ///< kNoArgument, for kDuplicateString: no limit
  std::uint8_t count;    ///< multiplied with `size`; kNoArgument: 1
  /// For kAllocate: the alignment, of a function that returns null if it is no power of two; kNoArgument: none.
  std::uint8_t alignment = kNoArgument;
  bool operator==(const Signature&) const = default;
};

struct AllocatorFunction {
  Signature signature;
  Family family;
  /// For kPlain: the function's bit of kCoreAll, or 0. An object contains an allocator if its functions have all of
  /// these bits. A function named free alone is no allocator.
  std::uint8_t core;
  bool is_memalign = false;  ///< has libc's name memalign; glibc's aligned_alloc may have it, too
};

inline constexpr std::uint8_t kCoreMalloc = 1;
inline constexpr std::uint8_t kCoreFree = 2;
inline constexpr std::uint8_t kCoreCallocOrRealloc = 4;
inline constexpr std::uint8_t kCoreAll = 7;

/// Finds the function with the symbol name `symbol`. Returns false when it is not an allocator's.
bool find_allocator_function(const char* symbol, AllocatorFunction& result) noexcept;

/// Hashes (real::gnu_hash) of names. Other names may have one of them, too.
struct NameHashes {
  const std::uint32_t* values;
  std::size_t count;
};
/// Together, of all names for which find_allocator_function() returns true: those of operators, and all others.
NameHashes operator_name_hashes() noexcept;
NameHashes allocator_name_hashes() noexcept;

/// Whether the name of an allocator function can end with these four bytes, loaded as a word. False for nearly all
/// others.
bool may_end_allocator_name(std::uint32_t last) noexcept;

/// The lengths of names of allocator functions that end with these four bytes, and maybe of some others: a set as in
/// name_search.h.
std::uint64_t allocator_name_lengths(std::uint32_t last) noexcept;

/// The name of the allocator, for messages.
const char* family_name(Family family) noexcept;

}  // namespace heapprof::intercept
