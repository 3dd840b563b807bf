// Unwinding of code that has no unwind information: musl's libc is compiled without it.
//
// From any place in a function, its own code shows how to get to the caller, if one follows it forward to its return:
// every instruction on the way that moves the stack pointer moves it by a constant, or takes it from the frame
// register, and the caller's frame register is popped from the place where the function saved it. The sum of these
// constants is the distance of the CFA. A function whose paths all end in a call that never returns has no caller
// that matters: the one that called main, or a thread's function.
//
// Wrong for code that is not a compiler's: that moves the stack pointer by what it computes. Then nothing is found.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/unwind/elf_object.h"

namespace heapprof::unwind {

/// How the frame at a program counter is left. Distances in bytes.
struct ReturnPath {
  enum class End : std::uint8_t {
    kUnknown,
    kReturns,
    kNeverReturns,
  };
  End end = End::kUnknown;
  bool from_fp = false;         ///< CFA = frame register + cfa_offset; else stack pointer + cfa_offset
  bool fp_saved = false;        ///< the caller's frame register is at CFA + fp_offset; else it is unchanged
  std::int64_t cfa_offset = 0;  ///< from the stack pointer at the program counter
  std::int64_t fp_offset = 0;
  bool operator==(const ReturnPath&) const = default;
};

/// Code that may be followed, and functions in it that never return.
struct FollowedCode {
  static constexpr std::size_t kMaxFunctions = 16;
  Span text;
  std::uint64_t never_return[kMaxFunctions] = {};
  std::size_t functions = 0;
  /// The first ones of them, such as exit, end the thread. Code that calls one of these has started the thread.
  std::size_t ending_functions = 0;
};

/// Follows the code from `pc` on, a return address in `code` or where a signal interrupted it. Takes bounded time,
/// maps memory for its work, and uses little stack. kUnknown also without memory.
ReturnPath find_return_path(const FollowedCode& code, std::uint64_t pc) noexcept;

namespace detail {
using ReturnPathFinder = ReturnPath(const FollowedCode&, std::uint64_t) noexcept;
extern FollowedCode followed_code [[gnu::visibility("hidden")]];
extern ReturnPathFinder* return_path_finder [[gnu::visibility("hidden")]];
}  // namespace detail

/// From here on, frames in `code` for which there is no unwind information are unwound by their return paths. Once,
/// before the first capture. Only the library, not the recorder's core, contains the decoder of instructions.
inline void follow_returns_in(const FollowedCode& code) noexcept {
  detail::followed_code = code;
  detail::return_path_finder = find_return_path;
}

}  // namespace heapprof::unwind
