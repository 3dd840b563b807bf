// Patches functions of one object, and makes the hooks bypass the patches.
//
// A hook calls the real function; if that is patched, the call would be recorded twice. So a real function that is
// patched is replaced in the hooks' table by its displaced instructions (real::redirect).
#pragma once

#include <cstddef>
#include <cstdint>

#include "patch.h"
#include "preload/intercept/object_report.h"
#include "preload/intercept/object_symbols.h"
#include "preload/intercept/patched_call.h"

namespace heapprof::intercept {

/// Zeroed memory is a valid object. Not thread-safe: only the thread that scans uses it.
class ObjectPatcher {
 public:
  /// Patches the `count` functions in `functions`, and moves those that were patched to its front. Returns their
  /// number. Reports the others. Precondition: no other thread is in these functions.
  std::size_t patch(const ObjectSymbols& symbols, const FunctionSymbol** functions, std::size_t count, Role role,
                    ObjectReport& report) noexcept;

  /// Whether the free that the program's own calls reach has been patched.
  bool program_free_is_patched() const noexcept { return program_free_is_patched_; }

 private:
  static constexpr std::size_t kMaxAreas = 512;

  /// Memory that was mapped for an object. After the object has been unloaded, another one that is loaded in its
  /// place reuses the memory. No thread can be in the old stubs, because it would return to unmapped code.
  struct Area {
    std::uint64_t begin;  ///< of the object
    std::uint64_t end;
    CodeArea code;
    PatchedFunction* functions;
    std::size_t capacity;
  };

  Refusal find_area(const ObjectSymbols& symbols, std::size_t count, Area& area) noexcept;
  Refusal prepare(const ObjectSymbols& symbols, const FunctionSymbol** functions, std::size_t count, Role role,
                  ObjectReport& report, std::size_t& prepared) noexcept;
  std::size_t apply(const FunctionSymbol** functions, std::size_t count, Role role, ObjectReport& report) noexcept;

  Area areas_[kMaxAreas];
  std::size_t area_count_;
  bool program_free_is_patched_;
  // Used during patch(), with one element for each function.
  Patch patches_[kMaxFunctions];
  PatchedFunction* patched_[kMaxFunctions];
  bool refused_[kMaxFunctions];
};

}  // namespace heapprof::intercept
