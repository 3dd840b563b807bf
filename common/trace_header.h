// The checksums of a trace's headers, and whether a file header is one: one definition for the recorder, which writes
// them, and the analyzer, which checks them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/checksum.h"
#include "common/trace_format.h"

namespace heapprof {

/// Whether `bytes`, at least sizeof kFileMagic of them, begin as a trace does.
inline bool has_file_magic(const void* bytes) noexcept {
  return __builtin_memcmp(bytes, kFileMagic, sizeof kFileMagic) == 0;
}

inline std::uint64_t header_checksum(const FileHeader& header) noexcept {
  return checksum(&header, offsetof(FileHeader, checksum));
}

/// The magic is stored last, so it has to be set in `header` already.
inline std::uint64_t header_checksum(const ExtentHeader& header) noexcept {
  return checksum(&header, offsetof(ExtentHeader, checksum));
}
inline std::uint64_t header_checksum(const FrameHeader& header) noexcept {
  return checksum(&header, offsetof(FrameHeader, header_checksum));
}

/// Whether `header` is the undamaged header of a trace as the recorder writes it: not a compacted one, and no later
/// major version.
inline bool is_recorder_header(const FileHeader& header) noexcept {
  return has_file_magic(header.magic) && header.version_major == kVersionMajor &&
         header.checksum == header_checksum(header);
}

}  // namespace heapprof
