// Finds the allocator of a loaded object, decides which of its functions are patched, and calls ObjectPatcher and
// ObjectReport.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "preload/intercept/object_patcher.h"
#include "preload/intercept/object_report.h"
#include "preload/intercept/object_symbols.h"
#include "preload/sys/guarded_read.h"
#include "preload/sys/proc_maps.h"

namespace heapprof::intercept {

/// Zeroed memory is a valid object. An object is too large for a stack. Not thread-safe: only the thread that scans
/// uses it.
class ObjectExaminer {
 public:
  /// Finds the path of the object's file. Returns false when it is not known.
  bool find_path(const link_map& map, sys::GuardedReader& reader) noexcept;

  /// Whether the path that was found last is that of a libc, or of its loader.
  bool is_libc() const noexcept;

  /// Examines the object whose path was found last. `no_thread_inside`: no other thread can be executing its
  /// functions.
  void examine(const link_map& map, sys::GuardedReader& reader, bool is_main, Role role,
               bool no_thread_inside) noexcept;

  /// Unmaps memory that examine() uses again.
  void release_scratch() noexcept { scratch_.release(); }

  /// Whether an object other than libc, of those examined so far, calls dlopen.
  bool object_loads_others() const noexcept { return object_loads_others_; }

  bool program_free_is_patched() const noexcept { return patcher_.program_free_is_patched(); }

 private:
  static constexpr std::size_t kPathBytes = 4096;

  bool find_mapped_path(const link_map& map, sys::GuardedReader& reader, sys::Mapping& mapping) noexcept;
  bool read_symbols(const link_map& map, sys::GuardedReader& reader, bool is_main) noexcept;
  bool may_have_known_strings(bool is_main) const noexcept;
  Family select(std::size_t& count) noexcept;

  char path_[kPathBytes];
  bool path_is_mapped_;  ///< true: `path_` is the path of the mapping; false: the loader's name
  bool object_loads_others_;
  Scratch scratch_;
  ObjectSymbols symbols_;
  const FunctionSymbol* selected_[kMaxFunctions];
  ObjectReport report_;
  ObjectPatcher patcher_;
};

}  // namespace heapprof::intercept
