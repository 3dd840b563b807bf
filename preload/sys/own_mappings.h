// The memory that the recorder has mapped for itself, so that a snapshot of resident pages can tell it from the
// host's: the kernel merges neighbouring anonymous mappings in /proc/self/maps.
//
// All functions take no lock and may be called from any thread and from signal handlers. If a signal handler leaves
// by longjmp, memory that stays mapped also stays listed; memory is never listed that is not the recorder's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::sys {

/// Lists memory that was just mapped. Beyond two million ranges, and when there is no memory for the list, it is
/// left out.
void add_own_mapping(const void* memory, std::size_t bytes) noexcept;
/// Call this before the memory is unmapped.
void remove_own_mapping(const void* memory) noexcept;

struct OwnMapping {
  std::uint64_t begin;  ///< 0: none
  std::uint64_t bytes;
};
/// Indices below this may have a range.
std::size_t own_mapping_slots() noexcept;
OwnMapping own_mapping(std::size_t slot) noexcept;

}  // namespace heapprof::sys
