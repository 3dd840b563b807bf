// Notices when code objects are freed, for interpreters whose code objects have no versions (up to 3.11).
//
// With PYTHONMALLOC=malloc, the interpreter frees a code object by calling free, which is hooked. So the address of a
// code object, and how many code objects were freed at this address, identify it. This holds only if the interpreter
// certainly calls our hook: CodeRelease proves it from the code of its functions.
//
// Why no free is missed: the hook counts it before it calls the real free. Only after that, another code object can
// be at the same address, and the allocator's synchronization orders its allocation after the count. The thread that
// frees a code object sees the stores of one that has put it into the table, because that one's frame referred to it.
//
// Code objects are never removed from the table, so a lookup takes no lock; the table has room for 24,576 addresses.
#pragma once

#include <cstdint>

#include "preload/python/readable_pages.h"

namespace heapprof::python {

/// The version of a code object: a word that changes when the code object is freed.
using VersionWord = const std::uint32_t*;

namespace detail {
inline constexpr unsigned kFilterBits = 16;
/// A bit for each hash of an address; 0: no code object with this hash is in the table.
extern std::uint8_t code_filter[(1u << kFilterBits) / 8] [[gnu::visibility("hidden")]];
/// Whether a bit of code_filter was ever set. From 3.12 on none is.
extern bool code_is_watched [[gnu::visibility("hidden")]];
extern std::uint64_t freed_code_objects [[gnu::visibility("hidden")]];
extern bool code_table_full [[gnu::visibility("hidden")]];

/// Blocks are multiples of 16.
constexpr std::uint64_t hash_of_block(std::uint64_t block) noexcept { return (block >> 4) * 0x9e3779b97f4a7c15; }
void count_freed_code(std::uint64_t block) noexcept;
}  // namespace detail

/// Call it for every block that is about to be freed, once there is an interpreter.
[[gnu::always_inline]] inline void block_freed(const void* block) noexcept {
  if (!__atomic_load_n(&detail::code_is_watched, __ATOMIC_RELAXED)) return;
  const auto address = reinterpret_cast<std::uint64_t>(block);
  const std::uint64_t bit = detail::hash_of_block(address) >> (64 - detail::kFilterBits);
  if ((__atomic_load_n(&detail::code_filter[bit / 8], __ATOMIC_RELAXED) >> bit % 8 & 1) != 0) [[unlikely]]
    detail::count_freed_code(address);
}

/// The version of the code object at `code`; null: the table is full. Precondition: a frame of the calling thread
/// refers to the object.
VersionWord version_of_code(std::uint64_t code) noexcept;

/// How many of the code objects for which version_of_code() was called have been freed. While it is equal, no version
/// has changed.
inline std::uint64_t freed_code_objects() noexcept {
  return __atomic_load_n(&detail::freed_code_objects, __ATOMIC_ACQUIRE);
}

/// By which functions an interpreter frees code objects. Zeroed memory is a valid object, of an interpreter whose
/// frees are not noticed.
class CodeRelease {
 public:
  /// Finds the pointer to the free function of the interpreter's objects in the code of `object_free`, which is
  /// PyObject_Free, or 0.
  void find(std::uint64_t object_free) noexcept;

  /// Whether the interpreter frees code objects by our hook, and has done so since this was true first. It is never
  /// true again when the interpreter has used another function meanwhile. Precondition: as for reading the
  /// interpreter's memory.
  bool is_noticed(ReadablePages& pages) noexcept {
    const std::uint64_t place = __atomic_load_n(&place_, __ATOMIC_RELAXED);
    if (place == 0 || __atomic_load_n(&detail::code_table_full, __ATOMIC_RELAXED)) return false;
    const std::uint64_t function = word(place);
    const std::uint64_t proven = __atomic_load_n(&proven_, __ATOMIC_ACQUIRE);
    if (proven == 0) return prove(function, pages);
    if (function == proven && word(called_) == hook_) [[likely]]
      return true;
    __atomic_store_n(&place_, std::uint64_t{0}, __ATOMIC_RELAXED);
    return false;
  }

 private:
  static std::uint64_t word(std::uint64_t address) noexcept {
    return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(address), __ATOMIC_RELAXED);
  }
  bool prove(std::uint64_t function, ReadablePages& pages) noexcept;

  std::uint64_t place_;     ///< where the address of the free function is; 0: not known, or not to be used
  std::uint64_t proven_;    ///< the free function that calls free; 0: none was found yet
  std::uint64_t called_;    ///< where the address of the free that it calls is
  std::uint64_t hook_;      ///< the address of our hook
  std::uint64_t rejected_;  ///< a free function that does something else
};

}  // namespace heapprof::python
