// Patches functions at their entry, on x86-64.
//
// A jump to the function's stub replaces the first instructions of a function, five bytes or more. The stub creates a
// frame and jumps to the trampoline (trampoline.S). The displaced instructions are copied into the code area, after
// the stub, followed by a jump back into the function; those that refer to their own address are rewritten. An
// endbr64 is not displaced. Nothing in the host's memory changes before apply_patch().
//
// A function is refused, with the reason, where it is not certain that its instructions can be moved and that no
// branch leads into the middle of them. docs/embedded-allocators.md describes how that is decided.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/unwind/modules.h"

namespace heapprof::intercept {

struct PatchedFunction;

/// Why a step was refused, as text for messages; null: it succeeded.
using Refusal = const char*;

/// Memory near an object, for stubs and displaced instructions. It is never unmapped.
struct CodeArea {
  std::uint8_t* begin = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
};

struct Patch {
  std::uint64_t address;  ///< of the displaced instructions
  std::uint32_t length;   ///< their length in bytes
  std::uint8_t jump[5];   ///< what replaces the first of them
  const void* original;   ///< their copy, which leads back into the function
  std::uint64_t function_begin;
  std::uint64_t function_end;
};

/// Maps an area for `functions` functions of an object with the addresses [begin, end). It is writable and not
/// executable.
Refusal map_code_area(CodeArea& area, std::uint64_t begin, std::uint64_t end, std::size_t functions) noexcept;

/// Writes stub and displaced instructions of the function at `address` into `area`, and fills `patch`. The stub
/// passes `function` to the trampoline. `size` is that of the symbol; 0: unknown. Nothing outside of `text`, which
/// is mapped code, is read: a symbol's size may be wrong.
Refusal prepare_patch(CodeArea& area, const unwind::Span& text, std::uint64_t address, std::uint64_t size,
                      const PatchedFunction* function, Patch& patch) noexcept;

/// Sets refused[i] if code in `text` branches, or may branch, into the middle of the displaced instructions of
/// patches[i]. `image` is the address range of the object that contains `text`.
void find_branches_into(const Patch* patches, std::size_t count, const unwind::Span& text, const unwind::Span& image,
                        bool* refused) noexcept;

/// Makes the area executable and read-only.
Refusal make_executable(CodeArea& area) noexcept;

/// Makes the area writable again, and empties it. Precondition: no thread executes its code.
Refusal reset(CodeArea& area) noexcept;

/// Writes the jump. `memory`: a descriptor of /proc/self/mem, or a failed call. Precondition: no thread is in the
/// displaced instructions, or about to run them.
Refusal apply_patch(const Patch& patch, int memory) noexcept;

}  // namespace heapprof::intercept
