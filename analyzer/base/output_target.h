// The file that has the name of an output already: which one it is, and what a new file gets from it.
#pragma once

#include <sys/stat.h>

#include <filesystem>

namespace heapprof {

/// What the symbolic link `path` leads to, whether that exists or not; `path` itself if it is no link.
std::filesystem::path target_of(std::filesystem::path path);

bool is_same_file(const struct stat& a, const struct stat& b) noexcept;

/// Gives the file `path` the owner and the group of `owned`. False: this process may not.
bool give_owner(const char* path, const struct stat& owned) noexcept;

inline constexpr mode_t kModeOfTraces = 0600;  ///< also of indexes, and of what has all that a trace has

/// The bits of `mode` that the umask leaves.
mode_t without_umask(mode_t mode) noexcept;

}  // namespace heapprof
