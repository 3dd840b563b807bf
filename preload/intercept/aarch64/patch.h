// The mirror of intercept/x86_64/patch.h, which says what the functions do. Here every function is refused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/intercept/object_symbols.h"
#include "preload/intercept/patched_call.h"
#include "preload/unwind/modules.h"

namespace heapprof::arch {

using Refusal = const char*;

struct Room {};

struct Patch {
  std::uint64_t address;
};

Refusal make_room(Room& room, std::uint64_t begin, std::uint64_t end, std::size_t functions) noexcept;
Refusal prepare(Room& room, const unwind::Span& text, std::uint64_t address, std::uint64_t size,
                intercept::Target& target, Patch& patch) noexcept;
void find_branches(const intercept::Symbols& object, const Patch* patches, std::size_t count,
                   bool* refused) noexcept;
Refusal seal(Room& room) noexcept;
Refusal unseal(Room& room) noexcept;
Refusal apply(const Patch& patch) noexcept;

}  // namespace heapprof::arch
