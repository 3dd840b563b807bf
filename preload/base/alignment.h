// Which alignments allocators refuse.
#pragma once

#include <cstdint>

namespace heapprof {

/// What an allocator does with the alignment 0.
enum class ZeroAlignment : bool {
  kRefused,  ///< it returns no block
  kAny,      ///< it returns a block with any alignment: memalign of glibc and of musl
};

/// Whether an allocator may refuse the alignment. If it then returns no block, no memory was requested. Allocators
/// refuse what is no power of two. The exceptions are glibc's memalign and, before 2.38, its aligned_alloc, which
/// round the alignment up if it is less than 2^63. If there is no memory for such a block, that is not reported
/// either: errno would show which of the two it was, but the recorder uses no function of libc that has it
/// (libc_surface.c).
constexpr bool may_be_refused(std::uint64_t alignment, ZeroAlignment zero) noexcept {
  return (alignment & (alignment - 1)) != 0 || (alignment == 0 && zero == ZeroAlignment::kRefused);
}

}  // namespace heapprof
