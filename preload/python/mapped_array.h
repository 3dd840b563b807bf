// An array in a mapping of its own, for the tables of one thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/sys/kernel.h"

namespace heapprof::python {

/// Elements are trivially copyable. Zeroed memory is a valid object: an empty array.
template <typename T>
struct MappedArray {
  T* elements;
  std::uint32_t capacity;  ///< number of elements

  /// Makes room for `count` elements, at most 2^31. If the array grows, it keeps the first `used`, and the others are
  /// zero. Returns false if there is no memory; then nothing has changed.
  bool reserve(std::uint32_t count, std::uint32_t used) noexcept {
    if (count <= capacity) return true;
    // `used` may exceed the capacity: a growth that was abandoned leaves none.
    std::uint32_t larger = capacity == 0 ? 256 : capacity;
    while (larger < count || larger < used) larger *= 2;
    T* const memory = static_cast<T*>(sys::map_private(larger * sizeof(T)));
    if (memory == nullptr) return false;
    if (used != 0) __builtin_memcpy(memory, elements, used * sizeof(T));
    T* const old = elements;
    const std::uint32_t old_capacity = capacity;
    // A signal handler may leave by longjmp at any instruction: the old mapping is not used after it was unmapped.
    capacity = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    elements = memory;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    capacity = larger;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (old_capacity != 0) sys::unmap_private(old, old_capacity * sizeof(T));
    return true;
  }
};

}  // namespace heapprof::python
