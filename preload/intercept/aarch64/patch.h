// The counterpart of intercept/x86_64/patch.h, which documents the functions. On aarch64, no function is patched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/unwind/modules.h"

namespace heapprof::intercept {

struct PatchedFunction;

using Refusal = const char*;

struct CodeArea {};

struct Patch {
  std::uint64_t address;
  const void* original;
  std::uint64_t function_begin;
  std::uint64_t function_end;
};

Refusal map_code_area(CodeArea& area, std::uint64_t begin, std::uint64_t end, std::size_t functions) noexcept;
Refusal prepare_patch(CodeArea& area, const unwind::Span& text, std::uint64_t address, std::uint64_t size,
                      const PatchedFunction* function, Patch& patch) noexcept;
void find_branches_into(const Patch* patches, std::size_t count, const unwind::Span& text, const unwind::Span& image,
                        bool* refused) noexcept;
Refusal make_executable(CodeArea& area) noexcept;
Refusal reset(CodeArea& area) noexcept;
Refusal apply_patch(const Patch& patch, int memory) noexcept;

}  // namespace heapprof::intercept
