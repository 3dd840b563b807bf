// The memory that the recorder has mapped for itself, so that a snapshot of resident pages can tell it from the
// host's: the kernel merges neighbouring anonymous mappings in /proc/self/maps.
//
// A range is in a slot of a table, and a slot that has become free is used again, so the table grows with the number
// of ranges at one time, not with the length of the recording.
//
// All functions take no lock and may be called from any thread and from signal handlers. A thread that is killed or
// leaves by longjmp between two steps, or a fork in between, loses a free slot, or leaves memory that is mapped out
// of the list. Memory that is not the recorder's is never listed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::sys {

/// Lists memory that was just mapped. If there are two million ranges, or no memory for the list, it is left out.
void add_own_mapping(const void* memory, std::size_t bytes) noexcept;
/// Call this before the memory is unmapped. Takes time proportional to the number of slots, at worst.
void remove_own_mapping(const void* memory) noexcept;

struct OwnMapping {
  std::uint64_t begin;  ///< 0: none
  std::uint64_t bytes;
};
/// Indices below this may have a range. It is the largest number of ranges that were listed at one time.
std::size_t own_mapping_slots() noexcept;
/// The range of a slot. If another thread changes the slot meanwhile: the old range, the new one, or none.
OwnMapping own_mapping(std::size_t slot) noexcept;

}  // namespace heapprof::sys
