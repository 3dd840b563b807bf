// One line of /proc/self/maps, found by address or name, by raw system calls (proc(5)).
#pragma once

#include <cstddef>
#include <cstdint>

namespace heapprof::sys {

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  bool readable = false;
};

/// Finds the mapping that holds `address`; its path, "" for anonymous memory, goes to `path`, cut to
/// `path_size`. False when there is none or /proc is not there. Uses 1 KB of stack.
bool find_mapping(std::uint64_t address, Mapping& mapping, char* path, std::size_t path_size) noexcept;

/// Finds the first mapping of a name of the kernel's, "[vvar]", of at most 15 bytes.
bool find_mapping(const char* name, Mapping& mapping) noexcept;

}  // namespace heapprof::sys
