// Diverting a function at its entry, on x86-64.
//
// Its first instructions, five bytes or more, are replaced by a jump to a stub in a room of ours within reach of it.
// The replaced instructions are kept runnable in the same room, those that refer to their own place rewritten, and
// lead back into the function. After endbr64, which stays.
//
// What cannot be moved without doubt is refused, with the reason: a function that is too short; instructions that the
// decoder does not know, or that cannot be moved (loop, jrcxz, a call that is not the last); a branch into the middle
// of the replaced bytes, from the function itself or from elsewhere in the object's code.
// Nothing of the host has changed until apply().
//
// Branches from elsewhere are looked for byte by byte, wherever instructions may begin, so none is missed. But many a
// pair of other instructions has bytes that look like one: jemalloc's look-up of an address holds shr $9 and and
// $0x1ffff8, in whose middle stands a call 515 KB back. So the function around what was found, whose first
// instruction the unwind information tells, is decoded from there to its end. The instructions found are all that run
// in it: each leads to the next, and no direct branch of the function leads to anything else (else it counts as not
// understood). If none of them branches into the patch, the function does not. Where that cannot be shown, a branch
// with a 32-bit displacement counts as one; a short one, from within 128 bytes, does in functions with unwind
// information only: compilers make none from one function into the middle of another, and assembly that does has a
// name there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/intercept/object_symbols.h"
#include "preload/intercept/patched_call.h"
#include "preload/unwind/modules.h"

namespace heapprof::arch {

/// Why not; null: done.
using Refusal = const char*;

/// Memory near an object: stubs and moved instructions. Lives as long as the process.
struct Room {
  std::uint8_t* begin = nullptr;
  std::size_t size = 0;
  std::size_t used = 0;
};

struct Patch {
  std::uint64_t address;  ///< of the bytes to be replaced
  std::uint32_t length;   ///< whole instructions
  std::uint8_t jump[5];
};

/// Room for some `functions` functions of an object that lies in [begin, end). Writable; not yet executable.
Refusal make_room(Room& room, std::uint64_t begin, std::uint64_t end, std::size_t functions) noexcept;

/// Writes stub and moved instructions of the function at `address` (`size` bytes; 0: unknown), whose Target they
/// fill. `text` is mapped code, beyond which nothing is read: the symbol's size may be anything.
Refusal prepare(Room& room, const unwind::Span& text, std::uint64_t address, std::uint64_t size,
                intercept::Target& target, Patch& patch) noexcept;

/// A branch from elsewhere in the object's code into the middle of a patch: true for those in `refused`.
void find_branches(const intercept::Symbols& object, const Patch* patches, std::size_t count,
                   bool* refused) noexcept;

/// Makes the room executable and unwritable.
Refusal seal(Room& room) noexcept;

/// Empty and writable again.
Refusal unseal(Room& room) noexcept;

/// Replaces the bytes. No thread may be about to run them.
Refusal apply(const Patch& patch) noexcept;

}  // namespace heapprof::arch
