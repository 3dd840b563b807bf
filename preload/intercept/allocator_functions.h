// Which functions belong to an allocator, by name: what a program may carry in place of libc's malloc, under the
// names that jemalloc, tcmalloc, mimalloc, snmalloc and scudo give their functions, and libc's own names.
#pragma once

#include <cstdint>

namespace heapprof::intercept {

enum class Family : std::uint8_t {
  kJemalloc,  ///< with a prefix: _rjem_ (Rust's), je_
  kTcmalloc,  ///< tc_ (gperftools), TCMallocInternal (Google's)
  kMimalloc,
  kSnmalloc,
  kScudo,
  kPlain,     ///< libc's names, and jemalloc's own without a prefix
  kOperator,  ///< C++ operator new and delete
};

/// What a call does to the heap.
enum class Kind : std::uint8_t {
  kAllocate,    ///< returns a block of `size` bytes, or null
  kStore,       ///< posix_memalign: an int, and the block through a pointer
  kCopy,        ///< returns a copy of the text `pointer`, of `size` characters at most (kNoArgument: of all), or null
  kReallocate,  ///< gives up `pointer`, returns another; null: failed, the old one lives on
  kReallocateOrFree,  ///< the same, but gives up the old one in any case (reallocf)
  kResize,      ///< xallocx: in place, returns the size there is
  kRelease,
};

/// Where a function finds its arguments, as numbers of integer parameters from 0.
struct Signature {
  Kind kind;
  bool throws;           ///< may be left by an exception: operator new
  std::uint8_t pointer;  ///< the block; kStore: where the result goes; kCopy: the text
  std::uint8_t size;     ///< kNoArgument: see kCopy
  std::uint8_t count;    ///< size is to be multiplied with it; kNoArgument: not
  bool operator==(const Signature&) const = default;
};

inline constexpr std::uint8_t kNoArgument = 255;

struct Name {
  Signature signature;
  Family family;
  /// Of kPlain: what makes an object an allocator rather than a program with a function called free. A bit each.
  std::uint8_t core;
};

inline constexpr std::uint8_t kCoreMalloc = 1;
inline constexpr std::uint8_t kCoreFree = 2;
inline constexpr std::uint8_t kCoreOther = 4;  ///< calloc or realloc
inline constexpr std::uint8_t kCoreAll = 7;

/// False: not an allocator's function.
bool match(const char* symbol, Name& name) noexcept;

/// "jemalloc", ... as a user knows it.
const char* family_name(Family family) noexcept;

}  // namespace heapprof::intercept
